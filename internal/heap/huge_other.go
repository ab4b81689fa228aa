//go:build !linux

package heap

// useHugePages does nothing: only Linux takes such advice.
func useHugePages(int) {}
