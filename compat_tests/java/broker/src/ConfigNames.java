import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import org.apache.kafka.common.config.ConfigDef;

/**
 * The settings that a class of Kafka defines, one a line: name, type, default, validator, and whether it is internal.
 *
 * With the jars of a Kafka on the class path: java -cp 'build/jars/broker/*' ConfigNames.java CLASS...
 * 4.1: org.apache.kafka.server.config.AbstractKafkaConfig, org.apache.kafka.storage.internals.log.LogConfig,
 * org.apache.kafka.coordinator.group.GroupConfig; 3.9: kafka.server.KafkaConfig, the same LogConfig;
 * 2.8: kafka.server.KafkaConfig$.
 */
public class ConfigNames {
    public static void main(String[] classes) throws Exception {
        for (String name : classes) {
            for (ConfigDef.ConfigKey key : definitions(Class.forName(name)).configKeys().values()) {
                String text = key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : "";
                System.out.println(
                    String.join("\t", key.name, "" + key.type, text, "" + key.validator, "" + key.internalConfig));
            }
        }
    }

    private static ConfigDef definitions(Class<?> owner) throws Exception {
        for (Field field : owner.getDeclaredFields()) {
            if (ConfigDef.class.isAssignableFrom(field.getType())) {
                field.setAccessible(true);
                return (ConfigDef) field.get(target(owner, field.getModifiers()));
            }
        }
        for (Method method : owner.getDeclaredMethods()) {
            if (ConfigDef.class.isAssignableFrom(method.getReturnType()) && method.getParameterCount() == 0) {
                method.setAccessible(true);
                return (ConfigDef) method.invoke(target(owner, method.getModifiers()));
            }
        }
        throw new IllegalArgumentException(owner + " has no definitions of settings");
    }

    private static Object target(Class<?> owner, int modifiers) throws Exception {
        return Modifier.isStatic(modifiers) ? null : owner.getField("MODULE$").get(null);
    }
}
