import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.Executors;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/** An MCP server for the files of a folder: URI.normalize. Prints its port. */
public class Server {
    private static final Pattern ID = Pattern.compile("\"id\"\\s*:\\s*(\"(?:[^\"\\\\]|\\\\.)*\"|[-+.\\w]+)");
    private static Path root;

    public static void main(String[] args) throws IOException {
        root = Path.of(args[0]);
        HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.setExecutor(Executors.newCachedThreadPool());
        server.createContext("/", Server::handle);
        server.start();
        System.out.println(server.getAddress().getPort());
    }

    private static void handle(HttpExchange exchange) throws IOException {
        String message = new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8);
        Matcher id = ID.matcher(message);
        if (!exchange.getRequestMethod().equals("POST")) {
            exchange.sendResponseHeaders(405, -1);
        } else if (!id.find()) {
            exchange.sendResponseHeaders(202, -1);
        } else {
            byte[] body = ("{\"jsonrpc\":\"2.0\",\"id\":" + id.group(1) + "," + outcome(message) + "}")
                .getBytes(StandardCharsets.UTF_8);
            exchange.getResponseHeaders().set("Content-Type", "application/json");
            exchange.sendResponseHeaders(200, body.length);
            exchange.getResponseBody().write(body);
        }
        exchange.close();
    }

    private static String outcome(String message) {
        try {
            switch (member(message, "method")) {
                case "initialize":
                    return "\"result\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{\"resources\":{}},"
                        + "\"serverInfo\":{\"name\":\"files\",\"version\":\"1\"}}";
                case "ping":
                    return "\"result\":{}";
                case "resources/list":
                    return "\"result\":{\"resources\":[" + listFiles() + "]}";
                case "resources/templates/list":
                    return "\"result\":{\"resourceTemplates\":[{\"uriTemplate\":\"file:///{+path}\",\"name\":\"file\"}]}";
                case "resources/read":
                    String text = readUri(member(message, "uri"));
                    return "\"result\":{\"contents\":[{\"uri\":\"x\",\"text\":" + quote(text) + "}]}";
                default:
                    return "\"error\":{\"code\":-32601,\"message\":\"unknown method\"}";
            }
        } catch (Exception error) {
            return "\"error\":{\"code\":-32602,\"message\":" + quote(String.valueOf(error.getMessage())) + "}";
        }
    }

    private static String listFiles() throws Exception {
        try (var paths = Files.walk(root)) {
            return paths.filter(Files::isRegularFile).sorted().map(path -> {
                String name = path.toString().substring(root.toString().length());
                // file:/public/…, as File.toURI.
                return "{\"uri\":" + quote(fileUri(name)) + ",\"name\":" + quote(name) + "}";
            }).collect(Collectors.joining(","));
        }
    }

    private static String fileUri(String path) {
        try {
            return new URI("file", null, path, null).toString();
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    private static String readUri(String text) throws Exception {
        URI uri = new URI(text).normalize();
        if (!"file".equalsIgnoreCase(uri.getScheme()) || uri.getPath() == null) throw new IOException("not found");
        Path path = Path.of(root + uri.getPath()).normalize();
        if (!path.startsWith(root)) throw new IOException("not found");
        return Files.readString(path);
    }

    /** A string member of any object in the message. */
    private static String member(String message, String name) {
        Matcher matcher = Pattern.compile("\"" + name + "\"\\s*:\\s*\"((?:[^\"\\\\]|\\\\.)*)\"").matcher(message);
        if (!matcher.find()) return "";
        Matcher escapes = Pattern.compile("\\\\(?:u([0-9a-fA-F]{4})|(.))").matcher(matcher.group(1));
        return escapes.replaceAll(escape -> Matcher.quoteReplacement(escape.group(1) != null
            ? String.valueOf((char) Integer.parseInt(escape.group(1), 16))
            : unescaped(escape.group(2))));
    }

    private static String unescaped(String letter) {
        int at = "bfnrt".indexOf(letter);
        return at == -1 ? letter : String.valueOf("\b\f\n\r\t".charAt(at));
    }

    private static String quote(String text) {
        StringBuilder quoted = new StringBuilder("\"");
        for (char character : text.toCharArray()) {
            if (character < ' ' || character == '"' || character == '\\' || Character.isSurrogate(character)) {
                quoted.append(String.format("\\u%04x", (int) character));
            } else {
                quoted.append(character);
            }
        }
        return quoted.append('"').toString();
    }
}
