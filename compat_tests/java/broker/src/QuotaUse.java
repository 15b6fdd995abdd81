import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import kafka.server.ClientQuotaManager;
import kafka.server.ClientRequestQuotaManager;
import kafka.server.ControllerMutationQuota;
import kafka.server.ControllerMutationQuotaManager;
import org.apache.kafka.common.errors.ThrottlingQuotaExceededException;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.utils.Sanitizer;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Timer;
import org.apache.kafka.network.Session;
import org.apache.kafka.server.config.ClientQuotaManagerConfig;
import org.apache.kafka.server.quota.ClientQuotaEntity;
import org.apache.kafka.server.quota.QuotaType;
import scala.None$;
import scala.Option;

/**
 * Uses Kafka's own quota managers as the lines of the standard input say, and prints each line with the answer.
 *
 * The lines are those of gateway/security/quotas/tests/quota_scenario.py, which has the command.
 */
public class QuotaUse {
    static long nowMs;

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        ClientQuotaManager manager = null;
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t", -1);
            String answer = "";
            switch (words[0]) {
                case "new":
                    manager = made(words[1], Integer.parseInt(words[2]), Integer.parseInt(words[3]));
                    break;
                case "set":
                    Option<ClientQuotaEntity.ConfigEntity> client = client(words[2]);
                    Option<Quota> quota = words[3].equals("-") ? none() : Option.apply(Quota.upperBound(Double.parseDouble(words[3])));
                    manager.updateQuota(user(words[1]), client, quota);
                    break;
                case "use":
                    nowMs = Long.parseLong(words[4]);
                    answer += manager.maybeRecordAndGetThrottleTimeMs(session(words[1]), words[2], Double.parseDouble(words[3]), nowMs);
                    break;
                case "back":
                    nowMs = Long.parseLong(words[4]);
                    manager.getOrCreateQuotaSensors(session(words[1]), words[2]).quotaSensor()
                        .record(-Double.parseDouble(words[3]), nowMs, false);
                    break;
                case "most":
                    answer += manager.getMaxValueInQuotaWindow(session(words[1]), words[2]);
                    break;
                case "strict":
                case "permissive":
                    nowMs = Long.parseLong(words[4]);
                    answer = mutated((ControllerMutationQuotaManager) manager, words);
                    break;
                default:
                    throw new IllegalArgumentException(line);
            }
            System.out.println(line + "\t" + answer);
        }
        System.exit(0);
    }

    static ClientQuotaManager made(String kind, int samples, int seconds) {
        ClientQuotaManagerConfig config = new ClientQuotaManagerConfig(samples, seconds);
        Time time = new SetTime();
        Metrics metrics = new Metrics(time);
        switch (kind) {
            case "request":
                return new ClientRequestQuotaManager(config, metrics, time, "", Optional.empty());
            case "mutation":
                return new ControllerMutationQuotaManager(config, metrics, time, "", none());
            default:
                return new ClientQuotaManager(config, metrics, QuotaType.PRODUCE, time, "", none());
        }
    }

    static String mutated(ControllerMutationQuotaManager manager, String[] words) throws Exception {
        boolean isStrict = words[0].equals("strict");
        ControllerMutationQuota quota = isStrict
            ? manager.newStrictQuotaFor(session(words[1]), words[2]) : manager.newPermissiveQuotaFor(session(words[1]), words[2]);
        String refused = "";
        try {
            quota.record(Double.parseDouble(words[3]));
        } catch (ThrottlingQuotaExceededException error) {
            refused = " refused: " + error.getMessage();
        }
        return quota.throttleTime() + refused;
    }

    static Session session(String user) throws Exception {
        return new Session(new KafkaPrincipal("User", user), InetAddress.getLoopbackAddress());
    }

    static Option<ClientQuotaManager.BaseUserEntity> user(String name) {
        if (name.equals("-"))
            return none();
        return Option.apply(name.equals("*") ? ClientQuotaManager.DefaultUserEntity$.MODULE$
            : new ClientQuotaManager.UserEntity(Sanitizer.sanitize(name)));
    }

    static Option<ClientQuotaEntity.ConfigEntity> client(String name) {
        if (name.equals("-"))
            return none();
        return Option.apply(name.equals("*") ? ClientQuotaManager.DefaultClientIdEntity$.MODULE$
            : new ClientQuotaManager.ClientIdEntity(name));
    }

    @SuppressWarnings("unchecked")
    static <T> Option<T> none() {
        return (Option<T>) (Option<?>) None$.MODULE$;
    }

    /** The time of the last line. */
    static class SetTime implements Time {
        public long milliseconds() {
            return nowMs;
        }

        public long hiResClockMs() {
            return nowMs;
        }

        public long nanoseconds() {
            return TimeUnit.MILLISECONDS.toNanos(nowMs);
        }

        public void sleep(long ms) {
        }

        public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
        }

        public Timer timer(long timeoutMs) {
            throw new UnsupportedOperationException();
        }
    }
}
