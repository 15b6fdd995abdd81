package main

import (
	"crypto/sha256"
	"crypto/sha512"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"
	"headgate.test/lines"
)

// logIn adds the settings of a login. A refused login is not tried again: the tests want to see it.
func logIn(config *sarama.Config, login *lines.Login) {
	config.Metadata.Retry.Max = 1
	config.Producer.Retry.Max = 1
	config.Net.SASL.Enable = true
	config.Net.SASL.Mechanism = sarama.SASLMechanism(login.Mechanism)
	config.Net.SASL.Version = sarama.SASLHandshakeV1
	config.Net.SASL.User, config.Net.SASL.Password = login.User, login.Password
	switch login.Mechanism {
	case sarama.SASLTypeGSSAPI:
		name, realm := login.Principal()
		config.Net.SASL.GSSAPI = sarama.GSSAPIConfig{
			AuthType:           sarama.KRB5_KEYTAB_AUTH,
			KeyTabPath:         login.KeyTable,
			KerberosConfigPath: login.Kerberos,
			ServiceName:        lines.Service,
			Username:           name,
			Realm:              realm,
			DisablePAFXFAST:    true,
		}
	case sarama.SASLTypeOAuth:
		config.Net.SASL.TokenProvider = token(login.Token)
	case sarama.SASLTypeSCRAMSHA256:
		config.Net.SASL.SCRAMClientGeneratorFunc = exchangeOf(sha256.New)
	case sarama.SASLTypeSCRAMSHA512:
		config.Net.SASL.SCRAMClientGeneratorFunc = exchangeOf(sha512.New)
	}
}

type token string

func (t token) Token() (*sarama.AccessToken, error) {
	return &sarama.AccessToken{Token: string(t)}, nil
}

func exchangeOf(hash scram.HashGeneratorFcn) func() sarama.SCRAMClient {
	return func() sarama.SCRAMClient { return &exchange{hash: hash} }
}

// exchange is the library's conversation as sarama wants it.
type exchange struct {
	*scram.ClientConversation
	hash scram.HashGeneratorFcn
}

func (e *exchange) Begin(user, password, authorizationID string) error {
	client, err := e.hash.NewClient(user, password, authorizationID)
	if err == nil {
		e.ClientConversation = client.NewConversation()
	}
	return err
}
