package lines

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// Login is how the client names itself by SASL. Token is for OAUTHBEARER alone; KeyTable, a path, and Kerberos, the path
// of krb5.conf, are for GSSAPI, whose User has a realm.
type Login struct{ Mechanism, User, Password, Token, KeyTable, Kerberos, IsDelegationToken string }

// Service is the name that brokers have for Kerberos.
const Service = "kafka"

// Principal is the user's name and realm.
func (login Login) Principal() (string, string) {
	name, realm, _ := strings.Cut(login.User, "@")
	return name, realm
}

type files struct{ CA, Certificate, Key string }

// security is what COMPAT_TLS says: {"ca", "certificate", "key"} are paths of PEM files, the last two optional; the
// fields of a login are optional too. See security/client_security.py. Both are nil for an empty text.
func security(text string) (*tls.Config, *Login, error) {
	if text == "" {
		return nil, nil, nil
	}
	var found struct {
		files
		Login
	}
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		return nil, nil, fmt.Errorf("COMPAT_TLS: %w", err)
	}
	config, err := tlsConfig(found.files)
	if found.Mechanism == "" {
		return config, nil, err
	}
	return config, &found.Login, err
}

func tlsConfig(files files) (*tls.Config, error) {
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
