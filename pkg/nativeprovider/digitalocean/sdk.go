package digitalocean

// SDKVersion is the version of pulumi-digitalocean/sdk/v4 that the modules are written against. The engine expects it of the plugin, and warns on
// every run of a lower one. A test keeps it in step with go.mod.
const SDKVersion = "4.57.0"
