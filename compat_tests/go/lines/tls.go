package lines

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
)

// tlsConfig is what COMPAT_TLS says: {"ca", "certificate", "key"} are paths of PEM files, the last two optional. See
// security/client_security.py. It is nil for an empty text.
func tlsConfig(text string) (*tls.Config, error) {
	if text == "" {
		return nil, nil
	}
	var files struct{ CA, Certificate, Key string }
	if err := json.Unmarshal([]byte(text), &files); err != nil {
		return nil, fmt.Errorf("COMPAT_TLS: %w", err)
	}
	trusted, err := os.ReadFile(files.CA)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	if !config.RootCAs.AppendCertsFromPEM(trusted) {
		return nil, fmt.Errorf("no certificate in %s", files.CA)
	}
	if files.Certificate == "" {
		return config, nil
	}
	certificate, err := tls.LoadX509KeyPair(files.Certificate, files.Key)
	config.Certificates = []tls.Certificate{certificate}
	return config, err
}
