import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Set;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.UnsupportedCallbackException;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.auth.SaslExtensionsCallback;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerTokenCallback;

/**
 * Gives the token in the file that the option `file` of the JAAS line names, as users of Java clients from 2.0 on wrote
 * it themselves: before 3.1 the client could get no signed token on its own.
 */
public final class TokenFile implements AuthenticateCallbackHandler {
    private static final long LIFETIME_MS = 3_600_000;
    private Path path;

    @Override
    public void configure(Map<String, ?> settings, String mechanism, List<AppConfigurationEntry> entries) {
        path = Path.of((String) entries.get(0).getOptions().get("file"));
    }

    @Override
    public void handle(Callback[] callbacks) throws IOException, UnsupportedCallbackException {
        for (Callback callback : callbacks) {
            if (callback instanceof OAuthBearerTokenCallback wanted) {
                wanted.token(new Token(Files.readString(path), System.currentTimeMillis()));
            } else if (!(callback instanceof SaslExtensionsCallback)) {
                throw new UnsupportedCallbackException(callback);
            }
        }
    }

    @Override
    public void close() {}

    private record Token(String value, long startedMs) implements OAuthBearerToken {
        @Override
        public Set<String> scope() {
            return Set.of();
        }

        @Override
        public long lifetimeMs() {
            return startedMs + LIFETIME_MS;
        }

        @Override
        public String principalName() {
            return "unused";
        }

        @Override
        public Long startTimeMs() {
            return startedMs;
        }
    }
}
