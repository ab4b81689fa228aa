// Package endtoend holds the end-to-end tests: the modules and programs on the real Pulumi engine, through the provider plugins
// and the clouds' real Go SDKs, against the emulated clouds.
//
// The plugin is a parameter: PLANTON_TEST_PLUGINS=official runs the same tests with the official plugins, where those are
// installed in PULUMI_HOME; the default is native.
package endtoend
