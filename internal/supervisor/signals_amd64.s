// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux && !portable

#include "textflag.h"

#define SYS_kill 62

// The kernel calls a handler by C's convention, here with the signal's number
// in DI and its siginfo_t in SI. All registers are restored when it returns.

// func onFault()
TEXT ·onFault(SB), NOSPLIT|NOFRAME, $0-0
	CMPL	8(SI), $0 // si_code; above zero, the kernel is the sender
	JLE	forward
	MOVQ	·runtimeHandler(SB), AX
	JMP	AX
forward:
	JMP	·onSignal(SB)

// func onSignal()
TEXT ·onSignal(SB), NOSPLIT|NOFRAME, $0-0
	MOVL	DI, R8
	LEAQ	·seen(SB), R11
	MOVL	$1, (R11)(R8*4)
	LEAQ	·received(SB), R9
	LOCK
	INCL	(R9)(R8*4)
	MOVQ	·child(SB), R10
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
	SYSCALL
	DECL	R12
	JMP	next
done:
	RET

// func handlers() (signal, fault uintptr)
TEXT ·handlers(SB), NOSPLIT, $0-16
	LEAQ	·onSignal(SB), AX
	MOVQ	AX, signal+0(FP)
	LEAQ	·onFault(SB), AX
	MOVQ	AX, fault+8(FP)
	RET
