import java.io.File;
import java.io.IOException;
import java.util.jar.JarFile;

/**
 * Loads every class of the jars on the class path, for an archive of them that the JVM writes at its end (JEP 350).
 *
 * <p>It initializes the classes of Kafka's clients too: then their lambdas are in the archive. A class stays out of the
 * archive where it needs an optional library that is not there.
 */
public final class LoadClasses {
    private static final String SUFFIX = ".class";

    private LoadClasses() {}

    public static void main(String[] arguments) throws IOException {
        for (String path : System.getProperty("java.class.path").split(File.pathSeparator)) {
            try (JarFile jar = new JarFile(path)) {
                jar.stream().map(entry -> entry.getName()).filter(LoadClasses::isClass).forEach(LoadClasses::load);
            }
        }
    }

    private static boolean isClass(String name) {
        return name.endsWith(SUFFIX) && !name.startsWith("META-INF/") && !name.endsWith("module-info.class");
    }

    private static void load(String file) {
        String name = file.substring(0, file.length() - SUFFIX.length()).replace('/', '.');
        boolean isOfClients = name.startsWith("org.apache.kafka.clients.") || name.startsWith("org.apache.kafka.common.");
        try {
            Class.forName(name, isOfClients, ClassLoader.getSystemClassLoader());
        } catch (ClassNotFoundException | LinkageError missing) {
            // An optional library
        }
    }
}
