import java.io.IOException;
import java.io.Reader;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;

/** The settings of a file, by default the one that COMPAT_SETTINGS names, if any: see security/client_security.py. */
final class Settings {
    /** The present file, or null. */
    static String path = System.getenv("COMPAT_SETTINGS");

    private Settings() {}

    static void add(Properties settings) {
        if (path == null) {
            return;
        }
        try (Reader file = Files.newBufferedReader(Path.of(path))) {
            settings.load(file);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
