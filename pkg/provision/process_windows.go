package provision

import "os"

// processEnded tells for certain that no process has the id: Windows, other than Unix, opens the process to find it.
func processEnded(pid int) bool {
	process, err := os.FindProcess(pid)
	if err != nil {
		return true
	}
	_ = process.Release()
	return false
}
