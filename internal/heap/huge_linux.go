package heap

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// useHugePages has the kernel give the next so many bytes of the heap in huge pages, where it has them. The bytes are a block that is given back
// to the heap at once, untouched: what is made from now on is made in its place.
// https://docs.kernel.org/admin-guide/mm/transhuge.html
func useHugePages(size int) {
	block := make([]byte, size)
	_ = unix.Madvise(block, unix.MADV_HUGEPAGE) // a kernel without them goes on as it did
	runtime.GC()
}
