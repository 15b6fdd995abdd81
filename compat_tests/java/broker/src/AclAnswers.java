// Answers questions about ACLs with Apache Kafka's own authorizer: see gateway/security/acls/tests/asked.py.
//
// Standard input has blocks: `case <everyone> <super users>`, `acl <7 fields>`, `one <5 fields>`, `any <4 fields>`, `end`;
// fields are separated by a space. For each block a line leaves, with `1` for an allowed question and `0` for a denied one.
// `cidr <network> <address>` is answered by a line `1`, `0` or `-`, the last one for an invalid network (4.4 and newer).
// The class path decides which authorizer is asked: AclAuthorizer of 3.9, or StandardAuthorizer of 4.0 and newer.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.net.InetAddress;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;
import org.apache.kafka.server.authorizer.Authorizer;

public class AclAnswers {
    record Client(KafkaPrincipal principal, InetAddress clientAddress) implements AuthorizableRequestContext {
        public String listenerName() { return "PLAINTEXT"; }
        public SecurityProtocol securityProtocol() { return SecurityProtocol.PLAINTEXT; }
        public int requestType() { return 3; }
        public int requestVersion() { return 0; }
        public String clientId() { return ""; }
        public int correlationId() { return 0; }
    }

    static KafkaPrincipal principal(String text) {
        String[] parts = text.split(":", 2);
        return new KafkaPrincipal(parts[0], parts[1]);
    }

    static Client client(String principal, String host) throws Exception {
        return new Client(principal(principal), InetAddress.getByName(host));
    }

    static Authorizer standard(boolean everyone, String superUsers, List<AclBinding> acls) throws Exception {
        Class<?> type = Class.forName("org.apache.kafka.metadata.authorizer.StandardAuthorizer");
        Authorizer authorizer = (Authorizer) type.getConstructor().newInstance();
        authorizer.configure(Map.of("super.users", superUsers, "allow.everyone.if.no.acl.found", String.valueOf(everyone)));
        Class<?> acl = Class.forName("org.apache.kafka.metadata.authorizer.StandardAcl");
        Map<Uuid, Object> snapshot = new HashMap<>();
        for (AclBinding binding : acls) {
            snapshot.put(Uuid.randomUuid(), acl.getMethod("fromAclBinding", AclBinding.class).invoke(null, binding));
        }
        measure(authorizer);
        type.getMethod("loadSnapshot", Map.class).invoke(authorizer, snapshot);
        type.getMethod("completeInitialLoad").invoke(authorizer);
        return authorizer;
    }

    /** Gives the metrics without which StandardAuthorizer of 4.1 does not answer. */
    static void measure(Authorizer authorizer) throws Exception {
        Class<?> metrics = Class.forName("org.apache.kafka.common.metrics.Metrics");
        Constructor<?> implementation = Class.forName("org.apache.kafka.common.metrics.internals.PluginMetricsImpl")
            .getConstructor(metrics, Map.class);
        Object made = implementation.newInstance(metrics.getConstructor().newInstance(), Map.of());
        authorizer.getClass().getMethod("withPluginMetrics", Class.forName("org.apache.kafka.common.metrics.PluginMetrics"))
            .invoke(authorizer, made);
    }

    static Authorizer ofZooKeeper(boolean everyone, String superUsers, List<AclBinding> acls) throws Exception {
        Class<?> type = Class.forName("kafka.security.authorizer.AclAuthorizer");
        Authorizer authorizer = (Authorizer) type.getConstructor().newInstance();
        set(authorizer, "shouldAllowEveryoneIfNoAclIsFound", everyone);
        List<KafkaPrincipal> principals = new ArrayList<>();
        for (String each : superUsers.split(";")) {
            if (!each.isEmpty()) principals.add(principal(each));
        }
        set(authorizer, "superUsers", scalaSet(principals));
        Map<ResourcePattern, List<Object>> entries = new HashMap<>();
        Constructor<?> entry = Class.forName("org.apache.kafka.security.authorizer.AclEntry").getConstructor(AccessControlEntry.class);
        for (AclBinding binding : acls) {
            entries.computeIfAbsent(binding.pattern(), k -> new ArrayList<>()).add(entry.newInstance(binding.entry()));
        }
        Class<?> versioned = Class.forName("kafka.security.authorizer.AclAuthorizer$VersionedAcls");
        for (Map.Entry<ResourcePattern, List<Object>> each : entries.entrySet()) {
            Object value = versioned.getConstructors()[0].newInstance(scalaSet(each.getValue()), 0);
            type.getMethod("updateCache", ResourcePattern.class, versioned).invoke(authorizer, each.getKey(), value);
        }
        return authorizer;
    }

    static void set(Object of, String name, Object value) throws Exception {
        Field field = of.getClass().getDeclaredField(name);
        field.setAccessible(true);
        field.set(of, value);
    }

    static Object scalaSet(List<?> values) throws Exception {
        Object set = Class.forName("scala.collection.immutable.Set$").getField("MODULE$").get(null);
        Method empty = set.getClass().getMethod("empty");
        Object result = empty.invoke(set);
        Method plus = Class.forName("scala.collection.immutable.SetOps").getMethod("incl", Object.class);
        for (Object value : values) result = plus.invoke(result, value);
        return result;
    }

    static boolean isOfZooKeeper() {
        try {
            Class.forName("kafka.security.authorizer.AclAuthorizer");
            return true;
        } catch (ClassNotFoundException e) {
            return false;
        }
    }

    static String cidr(String network, String address) throws Exception {
        Class<?> type = Class.forName("org.apache.kafka.server.authorizer.internals.CidrUtils");
        try {
            type.getMethod("validate", String.class).invoke(null, network);
        } catch (InvocationTargetException e) {
            return "-";
        }
        Object answer = type.getMethod("isInRange", String.class, String.class)
            .invoke(null, InetAddress.getByName(address).getHostAddress(), network);
        return (Boolean) answer ? "1" : "0";
    }

    public static void main(String[] args) throws Exception {
        boolean ofZooKeeper = isOfZooKeeper();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder answers = new StringBuilder();
        List<AclBinding> acls = new ArrayList<>();
        Authorizer authorizer = null;
        boolean everyone = false;
        String superUsers = "";
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] part = line.split(" ", -1);
            switch (part[0]) {
                case "case" -> { everyone = Boolean.parseBoolean(part[1]); superUsers = part[2]; acls.clear(); authorizer = null; }
                case "acl" -> acls.add(new AclBinding(
                    new ResourcePattern(ResourceType.valueOf(part[1]), part[3], PatternType.valueOf(part[2])),
                    new AccessControlEntry(part[4], part[5], AclOperation.valueOf(part[6]), AclPermissionType.valueOf(part[7]))));
                case "cidr" -> answers.append(cidr(part[1], part[2])).append('\n');
                case "end" -> answers.append('\n');
                default -> {
                    if (authorizer == null) {
                        authorizer = ofZooKeeper ? ofZooKeeper(everyone, superUsers, acls) : standard(everyone, superUsers, acls);
                    }
                    Client client = client(part[1], part[2]);
                    AclOperation operation = AclOperation.valueOf(part[3]);
                    ResourceType type = ResourceType.valueOf(part[4]);
                    AuthorizationResult result = part[0].equals("any")
                        ? authorizer.authorizeByResourceType(client, operation, type)
                        : authorizer.authorize(client, List.of(new Action(
                            operation, new ResourcePattern(type, part[5], PatternType.LITERAL), 1, false, false))).get(0);
                    answers.append(result == AuthorizationResult.ALLOWED ? '1' : '0');
                }
            }
        }
        System.out.print(answers);
    }
}
