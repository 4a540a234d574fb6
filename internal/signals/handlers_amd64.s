// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux && !portable

#include "textflag.h"

#define SYS_write 1
#define SYS_kill 62

// From asm-generic/siginfo.h: what a siginfo_t has at 8 is si_code.
#define SI_USER 0
#define SI_QUEUE -1
#define SI_TKILL -6

// The kernel calls a handler by C's convention, here with the signal's number
// in DI and its siginfo_t in SI. All registers are restored when it returns.

// func onChild()
TEXT ·onChild(SB), NOSPLIT|NOFRAME, $0-0
	CMPL	8(SI), $SI_USER
	JEQ	forward
	CMPL	8(SI), $SI_QUEUE
	JEQ	forward
	JMP	·wake(SB)
forward:
	JMP	·onSignal(SB)

// func onUrgent()
TEXT ·onUrgent(SB), NOSPLIT|NOFRAME, $0-0
	CMPL	8(SI), $SI_TKILL
	JNE	forward
	MOVQ	·runtimeHandler(SB), AX
	JMP	AX
forward:
	JMP	·onSignal(SB)

// func onFault()
TEXT ·onFault(SB), NOSPLIT|NOFRAME, $0-0
	CMPL	8(SI), $0 // above zero, the kernel is the sender
	JLE	forward
	MOVQ	·runtimeHandler(SB), AX
	JMP	AX
forward:
	JMP	·onSignal(SB)

// func onPing()
TEXT ·onPing(SB), NOSPLIT|NOFRAME, $0-0
	LEAQ	·pinged(SB), AX
	LOCK
	INCL	(AX)
	RET

// func onHeld()
TEXT ·onHeld(SB), NOSPLIT|NOFRAME, $0-0
	MOVL	DI, R8
	LEAQ	·unrecorded(SB), R11
	MOVL	$1, (R11)(R8*4)
	LEAQ	·unforwarded(SB), R9
	LOCK
	INCL	(R9)(R8*4)
	JMP	·wake(SB)

// func onSignal()
TEXT ·onSignal(SB), NOSPLIT|NOFRAME, $0-0
	MOVL	DI, R8
	LEAQ	·unrecorded(SB), R11
	MOVL	$1, (R11)(R8*4)
	LEAQ	·unforwarded(SB), R9
	LOCK
	INCL	(R9)(R8*4)
	MOVQ	·forwardPID(SB), R10
	TESTQ	R10, R10
	JZ	done
	XORL	R12, R12
	XCHGL	R12, (R9)(R8*4)
next:
	TESTL	R12, R12
	JZ	done
	MOVQ	R10, DI
	MOVL	R8, SI
	MOVL	$SYS_kill, AX
	SYSCALL // which returns a negated errno
	DECL	R12
	TESTL	AX, AX
	JZ	next
	NEGL	AX
	LEAQ	·refusals(SB), R13
	MOVL	AX, (R13)(R8*4)
	JMP	next
done:
	JMP	·wake(SB)

// func wake()
TEXT ·wake(SB), NOSPLIT|NOFRAME, $0-0
	MOVL	·wakeFD(SB), DI
	TESTL	DI, DI
	JLT	asleep
	LEAQ	·wakeIncrement(SB), SI
	MOVL	$8, DX
	MOVL	$SYS_write, AX
	SYSCALL
asleep:
	RET

// func handlers() (signal, child, urgent, fault uintptr)
TEXT ·handlers(SB), NOSPLIT, $0-32
	LEAQ	·onSignal(SB), AX
	MOVQ	AX, signal+0(FP)
	LEAQ	·onChild(SB), AX
	MOVQ	AX, child+8(FP)
	LEAQ	·onUrgent(SB), AX
	MOVQ	AX, urgent+16(FP)
	LEAQ	·onFault(SB), AX
	MOVQ	AX, fault+24(FP)
	RET

// func heldHandler() uintptr
TEXT ·heldHandler(SB), NOSPLIT, $0-8
	LEAQ	·onHeld(SB), AX
	MOVQ	AX, ret+0(FP)
	RET

// func pingHandler() uintptr
TEXT ·pingHandler(SB), NOSPLIT, $0-8
	LEAQ	·onPing(SB), AX
	MOVQ	AX, ret+0(FP)
	RET
