package lab

import (
	"net/url"

	"github.com/pkg/errors"
)

// CloseCloud has nobody listen at the address of CloudStack: connections are refused, until OpenCloud. Machines and jobs go on.
func (l *Lab) CloseCloud() { l.closeAPI() }

// OpenCloud has CloudStack answer at its address again, after CloseCloud.
func (l *Lab) OpenCloud() error {
	address, err := url.Parse(l.url)
	if err != nil {
		return errors.Wrap(err, "reading the address of CloudStack")
	}
	_, l.closeAPI, err = l.Cloud.Start(address.Host)
	return err
}
