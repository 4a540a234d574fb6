// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux && !portable

#include "textflag.h"

#define SYS_kill 129

// The kernel calls a handler by C's convention, here with the signal's number
// in R0 and its siginfo_t in R1. All registers are restored when it returns.

// func onFault()
TEXT ·onFault(SB), NOSPLIT|NOFRAME, $0-0
	MOVW	8(R1), R3 // si_code; above zero, the kernel is the sender
	CMPW	$0, R3
	BLE	forward
	MOVD	·runtimeHandler(SB), R3
	JMP	(R3)
forward:
	JMP	·onSignal(SB)

// func onSignal()
TEXT ·onSignal(SB), NOSPLIT|NOFRAME, $0-0
	MOVWU	R0, R4
	MOVD	$·seen(SB), R6
	ADD	R4<<2, R6, R6
	MOVD	$1, R7
	MOVW	R7, (R6)
	MOVD	$·received(SB), R5
	ADD	R4<<2, R5, R5
increment:
	LDAXRW	(R5), R6
	ADDW	$1, R6, R6
	STLXRW	R6, (R5), R7
	CBNZW	R7, increment
	MOVD	$·child(SB), R7
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
	SVC
	SUBW	$1, R6, R6
	B	next
done:
	RET

// func handlers() (signal, fault uintptr)
TEXT ·handlers(SB), NOSPLIT, $0-16
	MOVD	$·onSignal(SB), R0
	MOVD	R0, signal+0(FP)
	MOVD	$·onFault(SB), R0
	MOVD	R0, fault+8(FP)
	RET
