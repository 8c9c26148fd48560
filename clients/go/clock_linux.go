package spindleagent

import (
	"syscall"
	"unsafe"
)

// boottime is CLOCK_BOOTTIME, which counts the time that the machine is suspended.
const boottime = 7

// now reads the clock by which deadlines are told. The standard library has no call for it.
func now() (field string, nanoseconds int64) {
	var read syscall.Timespec
	if _, _, err := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, boottime, uintptr(unsafe.Pointer(&read)), 0); err != 0 {
		return "boottime_ns", 1<<63 - 1 // no term is held by a clock that can't be read
	}
	return "boottime_ns", read.Nano()
}
