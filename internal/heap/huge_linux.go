package heap

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// before is how many bytes of the heap may lie before the block of useHugePages: what the runtime and the packages that came first have made,
// and the rest of what the heap grew by for that.
const before = 8 << 20

// useHugePages has the kernel give the next so many bytes of the heap in huge pages, where it has them. The bytes are a block that is given back
// to the heap at once, untouched: what is made from now on is made in its place. The advice is taken for what is mapped of the range, and a
// kernel without huge pages goes on as it did, so that no error matters.
// https://docs.kernel.org/admin-guide/mm/transhuge.html
func useHugePages(size int) {
	block := make([]byte, size)
	start := (uintptr(unsafe.Pointer(&block[0])) - before) &^ uintptr(unix.Getpagesize()-1)
	_, _, _ = unix.Syscall(unix.SYS_MADVISE, start, before+uintptr(size), unix.MADV_HUGEPAGE)
	runtime.KeepAlive(block)
	runtime.GC()
}
