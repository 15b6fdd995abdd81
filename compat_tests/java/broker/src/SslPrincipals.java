import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import javax.security.auth.x500.X500Principal;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

/**
 * Names of clients with a certificate, as Java and Kafka's SslPrincipalMapper give them.
 *
 * Questions are lines on stdin: `dn NAME`, an encoded distinguished name; `map RULES NAME`, texts in UTF-8; all in
 * hexadecimal. An answer is a line: `=` and the text, or `!` and the message of the exception, in hexadecimal.
 * With the jars of a Kafka on the class path: java -cp 'build/jars/broker/*' SslPrincipals.java
 */
public class SslPrincipals {
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(answer(line.split(" ", -1)));
        }
    }

    private static String answer(String[] question) {
        try {
            return "=" + hex(question[0].equals("dn")
                    ? new X500Principal(HEX.parseHex(question[1])).getName()
                    : SslPrincipalMapper.fromRules(text(question[1])).getName(text(question[2])));
        } catch (Exception problem) {
            return "!" + hex(problem.getClass().getSimpleName() + ": " + problem.getMessage());
        }
    }

    private static String text(String hex) {
        return new String(HEX.parseHex(hex), StandardCharsets.UTF_8);
    }

    private static String hex(String text) {
        return HEX.formatHex(text.getBytes(StandardCharsets.UTF_8));
    }
}
