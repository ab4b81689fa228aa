// Package soak proves by chance that nothing is lost and nothing is left behind: it provisions on emulated clouds that fail, is
// killed while it does so, heals the clouds, applies once more, and compares the clouds and the states with the manifests.
//
// A Schedule says what happens in one run, and follows from a seed alone. Problems is the comparison. The runner itself stands in
// the tests, for what it kills are processes of the test binary: see docs/reliability.md.
package soak
