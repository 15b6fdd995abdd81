import java.io.IOException;
import java.io.Reader;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;

/** The settings of the file that COMPAT_SETTINGS names, if it is set: see security/client_security.py. */
final class Settings {
    private Settings() {}

    static void add(Properties settings) {
        String path = System.getenv("COMPAT_SETTINGS");
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
