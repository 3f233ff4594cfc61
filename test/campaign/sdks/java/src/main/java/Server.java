import io.modelcontextprotocol.server.McpServer;
import io.modelcontextprotocol.server.McpServerFeatures.SyncCompletionSpecification;
import io.modelcontextprotocol.server.McpServerFeatures.SyncPromptSpecification;
import io.modelcontextprotocol.server.McpServerFeatures.SyncResourceSpecification;
import io.modelcontextprotocol.server.McpServerFeatures.SyncResourceTemplateSpecification;
import io.modelcontextprotocol.server.McpServerFeatures.SyncToolSpecification;
import io.modelcontextprotocol.server.McpSyncServer;
import io.modelcontextprotocol.server.McpSyncServerExchange;
import io.modelcontextprotocol.server.transport.HttpServletStreamableServerTransportProvider;
import io.modelcontextprotocol.spec.McpSchema;
import io.modelcontextprotocol.spec.McpSchema.CallToolRequest;
import io.modelcontextprotocol.spec.McpSchema.CallToolResult;
import io.modelcontextprotocol.spec.McpSchema.ReadResourceRequest;
import io.modelcontextprotocol.spec.McpSchema.ReadResourceResult;
import java.nio.file.Files;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BiFunction;
import java.util.function.Function;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.apache.catalina.startup.Tomcat;

/** The server of the SDK campaign on the Java SDK, in an embedded Tomcat on the port of PORT. */
public final class Server {
  private static final List<String> NAMES = List.of("Ada", "Alan", "Grace");
  private static final Map<String, Object> NOTHING = Map.of("type", "object", "properties", Map.of());
  private static final AtomicInteger CANCELED = new AtomicInteger();
  private static McpSyncServer server;

  public static void main(String[] args) throws Exception {
    var transport = HttpServletStreamableServerTransportProvider.builder().mcpEndpoint("/mcp").build();
    server =
        McpServer.sync(transport)
            .serverInfo("java", "1.0.0")
            .instructions("A server for tests.")
            .capabilities(
                McpSchema.ServerCapabilities.builder()
                    .tools(true)
                    .resources(true, true)
                    .prompts(true)
                    .completions()
                    .build())
            .tools(Stream.concat(tools(), pages()).toList())
            .resources(
                resource("static", uri -> "static text"), resource("counter", uri -> "1"))
            .resourceTemplates(
                new SyncResourceTemplateSpecification(
                    McpSchema.ResourceTemplate.builder("test://items/{id}", "item").mimeType("text/plain").build(),
                    read(uri -> "item " + uri.substring("test://items/".length()))))
            .prompts(
                new SyncPromptSpecification(
                    McpSchema.Prompt.builder("greet")
                        .description("Greets someone")
                        .arguments(List.of(McpSchema.PromptArgument.builder("name").required(true).build()))
                        .build(),
                    (exchange, request) -> {
                      var text = new McpSchema.TextContent("Greet " + request.arguments().get("name"));
                      var message = new McpSchema.PromptMessage(McpSchema.Role.USER, text);
                      return McpSchema.GetPromptResult.builder(List.of(message)).build();
                    }))
            .completions(
                new SyncCompletionSpecification(
                    new McpSchema.PromptReference("greet"),
                    (exchange, request) -> {
                      var value = request.argument().value();
                      var values = NAMES.stream().filter(name -> name.startsWith(value)).toList();
                      return new McpSchema.CompleteResult(
                          new McpSchema.CompleteResult.CompleteCompletion(values, values.size(), false));
                    }))
            .build();
    var tomcat = new Tomcat();
    var folder = Files.createTempDirectory("sluice-sdks").toString();
    tomcat.setBaseDir(folder);
    tomcat.setPort(Integer.parseInt(System.getenv("PORT")));
    tomcat.getConnector().setProperty("address", "127.0.0.1");
    var context = tomcat.addContext("", folder);
    Tomcat.addServlet(context, "mcp", transport).setAsyncSupported(true);
    context.addServletMappingDecoded("/mcp", "mcp");
    tomcat.start();
    tomcat.getServer().await();
  }

  private static Stream<SyncToolSpecification> tools() {
    var number = Map.of("type", "number");
    var sum = Map.<String, Object>of("type", "object", "properties", Map.of("sum", number), "required", List.of("sum"));
    return Stream.of(
        tool("echo", "Returns its text", arguments("text", "string"),
            (exchange, request) -> text((String) request.arguments().get("text"))),
        new SyncToolSpecification(
            McpSchema.Tool.builder("add", arguments("a", "number", "b", "number"))
                .description("Adds two numbers")
                .outputSchema(sum)
                .build(),
            (exchange, request) -> {
              var a = (Number) request.arguments().get("a");
              var b = (Number) request.arguments().get("b");
              var total = a.doubleValue() + b.doubleValue();
              return CallToolResult.builder()
                  .addTextContent(String.valueOf(total))
                  .structuredContent(Map.of("sum", total))
                  .build();
            }),
        tool("fail", "Fails", NOTHING, (exchange, request) ->
            CallToolResult.builder().addTextContent("the tool failed").isError(true).build()),
        tool("progress", "Reports progress", arguments("steps", "integer"), Server::progress),
        tool("ask", "Asks for a name", NOTHING, (exchange, request) -> {
          var form = McpSchema.ElicitRequest.builder("Your name?", arguments("name", "string")).build();
          var answer = exchange.createElicitation(form);
          return text(answer.action().name().toLowerCase() + ": " + answer.content().get("name"));
        }),
        tool("slow", "Runs until it is canceled", NOTHING, (exchange, request) -> {
          try {
            Thread.sleep(20_000);
          } catch (InterruptedException canceled) {
            CANCELED.incrementAndGet();
          }
          return text("done");
        }),
        tool("canceled", "Number of canceled calls", NOTHING,
            (exchange, request) -> text(String.valueOf(CANCELED.get()))),
        tool("touch", "Changes the counter", NOTHING, (exchange, request) -> {
          server.notifyResourcesUpdated(new McpSchema.ResourcesUpdatedNotification("test://counter"));
          return text("touched");
        }));
  }

  private static Stream<SyncToolSpecification> pages() {
    return IntStream.rangeClosed(1, 30).mapToObj(page -> {
      var name = String.format("page_%02d", page);
      return tool(name, "Tool " + page, NOTHING, (exchange, request) -> text(name));
    });
  }

  private static CallToolResult progress(McpSyncServerExchange exchange, CallToolRequest request) {
    var steps = ((Number) request.arguments().get("steps")).intValue();
    for (var step = 1; step <= steps && request.progressToken() != null; step++) {
      exchange.progressNotification(
          new McpSchema.ProgressNotification(request.progressToken(), step, (double) steps, "step " + step));
    }
    return text(steps + " steps");
  }

  private static SyncToolSpecification tool(
      String name,
      String description,
      Map<String, Object> schema,
      BiFunction<McpSyncServerExchange, CallToolRequest, CallToolResult> run) {
    return new SyncToolSpecification(McpSchema.Tool.builder(name, schema).description(description).build(), run);
  }

  private static CallToolResult text(String value) {
    return CallToolResult.builder().addTextContent(value).build();
  }

  /** A schema with required members: name and type of each. */
  private static Map<String, Object> arguments(String... members) {
    var properties = new java.util.LinkedHashMap<String, Object>();
    for (var at = 0; at < members.length; at += 2) properties.put(members[at], Map.of("type", members[at + 1]));
    return Map.of("type", "object", "properties", properties, "required", List.copyOf(properties.keySet()));
  }

  private static SyncResourceSpecification resource(String name, Function<String, String> value) {
    var resource = McpSchema.Resource.builder("test://" + name, name).mimeType("text/plain").build();
    return new SyncResourceSpecification(resource, read(value));
  }

  private static BiFunction<McpSyncServerExchange, ReadResourceRequest, ReadResourceResult> read(
      Function<String, String> value) {
    return (exchange, request) -> {
      var uri = request.uri();
      var contents = new McpSchema.TextResourceContents(uri, "text/plain", value.apply(uri));
      return new ReadResourceResult(List.of(contents));
    };
  }
}
