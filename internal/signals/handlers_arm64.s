// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux && !portable

#include "textflag.h"

#define SYS_write 64
#define SYS_kill 129

// From asm-generic/siginfo.h: what a siginfo_t has at 8 is si_code.
#define SI_USER 0
#define SI_QUEUE -1
#define SI_TKILL -6

// The kernel calls a handler by C's convention, here with the signal's number
// in R0 and its siginfo_t in R1. All registers are restored when it returns.

// func onChild()
TEXT ·onChild(SB), NOSPLIT|NOFRAME, $0-0
	MOVW	8(R1), R3
	CMPW	$SI_USER, R3
	BEQ	forward
	CMPW	$SI_QUEUE, R3
	BEQ	forward
	JMP	·wake(SB)
forward:
	JMP	·onSignal(SB)

// func onUrgent()
TEXT ·onUrgent(SB), NOSPLIT|NOFRAME, $0-0
	MOVW	8(R1), R3
	CMPW	$SI_TKILL, R3
	BNE	forward
	MOVD	·runtimeHandler(SB), R3
	JMP	(R3)
forward:
	JMP	·onSignal(SB)

// func onFault()
TEXT ·onFault(SB), NOSPLIT|NOFRAME, $0-0
	MOVW	8(R1), R3 // above zero, the kernel is the sender
	CMPW	$0, R3
	BLE	forward
	MOVD	·runtimeHandler(SB), R3
	JMP	(R3)
forward:
	JMP	·onSignal(SB)

// func onPing()
TEXT ·onPing(SB), NOSPLIT|NOFRAME, $0-0
	MOVD	$·pinged(SB), R5
count:
	LDAXRW	(R5), R6
	ADDW	$1, R6, R6
	STLXRW	R6, (R5), R7
	CBNZW	R7, count
	RET

// func onHeld()
TEXT ·onHeld(SB), NOSPLIT|NOFRAME, $0-0
	MOVWU	R0, R4
	MOVD	$·unrecorded(SB), R6
	ADD	R4<<2, R6, R6
	MOVD	$1, R7
	MOVW	R7, (R6)
	MOVD	$·unforwarded(SB), R5
	ADD	R4<<2, R5, R5
increment:
	LDAXRW	(R5), R6
	ADDW	$1, R6, R6
	STLXRW	R6, (R5), R7
	CBNZW	R7, increment
	JMP	·wake(SB)

// func onSignal()
TEXT ·onSignal(SB), NOSPLIT|NOFRAME, $0-0
	MOVWU	R0, R4
	MOVD	$·unrecorded(SB), R6
	ADD	R4<<2, R6, R6
	MOVD	$1, R7
	MOVW	R7, (R6)
	MOVD	$·unforwarded(SB), R5
	ADD	R4<<2, R5, R5
increment:
	LDAXRW	(R5), R6
	ADDW	$1, R6, R6
	STLXRW	R6, (R5), R7
	CBNZW	R7, increment
	MOVD	$·forwardPID(SB), R7
	LDAR	(R7), R9
	CBZ	R9, done
take:
	LDAXRW	(R5), R6
	STLXRW	ZR, (R5), R7
	CBNZW	R7, take
next:
	CBZW	R6, done
	MOVD	R9, R0
	MOVW	R4, R1
	MOVD	$SYS_kill, R8
	SVC // which returns a negated errno
	SUBW	$1, R6, R6
	CBZW	R0, next
	NEGW	R0, R0
	MOVD	$·refusals(SB), R7
	ADD	R4<<2, R7, R7
	MOVW	R0, (R7)
	B	next
done:
	JMP	·wake(SB)

// func wake()
TEXT ·wake(SB), NOSPLIT|NOFRAME, $0-0
	MOVW	·wakeFD(SB), R0
	CMPW	$0, R0
	BLT	asleep
	MOVD	$·wakeIncrement(SB), R1
	MOVD	$8, R2
	MOVD	$SYS_write, R8
	SVC
asleep:
	RET

// func handlers() (signal, child, urgent, fault uintptr)
TEXT ·handlers(SB), NOSPLIT, $0-32
	MOVD	$·onSignal(SB), R0
	MOVD	R0, signal+0(FP)
	MOVD	$·onChild(SB), R0
	MOVD	R0, child+8(FP)
	MOVD	$·onUrgent(SB), R0
	MOVD	R0, urgent+16(FP)
	MOVD	$·onFault(SB), R0
	MOVD	R0, fault+24(FP)
	RET

// func heldHandler() uintptr
TEXT ·heldHandler(SB), NOSPLIT, $0-8
	MOVD	$·onHeld(SB), R0
	MOVD	R0, ret+0(FP)
	RET

// func pingHandler() uintptr
TEXT ·pingHandler(SB), NOSPLIT, $0-8
	MOVD	$·onPing(SB), R0
	MOVD	R0, ret+0(FP)
	RET
