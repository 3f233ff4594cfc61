import io.modelcontextprotocol.client.McpClient;
import io.modelcontextprotocol.client.McpSyncClient;
import io.modelcontextprotocol.client.transport.HttpClientStreamableHttpTransport;
import io.modelcontextprotocol.json.McpJsonDefaults;
import io.modelcontextprotocol.spec.McpError;
import io.modelcontextprotocol.spec.McpSchema;
import io.modelcontextprotocol.spec.McpSchema.CallToolRequest;
import java.net.URI;
import java.time.Duration;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CopyOnWriteArrayList;

/** The client of the SDK campaign on the Java SDK: runs the scenario with the server at the address given. */
public final class Client {
  private static final Duration STEP = Duration.ofSeconds(20);
  private static final List<Object> QUESTIONS = new CopyOnWriteArrayList<>();
  private static final List<Object> PROGRESS = new CopyOnWriteArrayList<>();
  private static final List<Object> UPDATED = new CopyOnWriteArrayList<>();

  public static void main(String[] args) throws Exception {
    var address = URI.create(args[0]);
    var transport =
        HttpClientStreamableHttpTransport.builder(args[0].replace(address.getPath(), ""))
            .endpoint(address.getPath())
            .build();
    var client =
        McpClient.sync(transport)
            .clientInfo(new McpSchema.Implementation("java", "1.0.0"))
            .requestTimeout(STEP)
            .initializationTimeout(STEP)
            .capabilities(McpSchema.ClientCapabilities.builder().elicitation().build())
            .elicitation(
                request -> {
                  QUESTIONS.add(request);
                  return new McpSchema.ElicitResult(McpSchema.ElicitResult.Action.ACCEPT, Map.of("name", "Ada"));
                })
            .progressConsumer(done -> PROGRESS.add(List.of(done.progress(), done.total(), done.message())))
            .resourcesUpdateConsumer(contents -> contents.forEach(content -> UPDATED.add(content.uri())))
            .build();
    scenario(client);
    System.exit(0);
  }

  private static void scenario(McpSyncClient client) throws Exception {
    step("initialize", client::initialize);
    step("tools/list", () -> client.listTools().tools());
    step("echo", () -> call(client, "echo", Map.of("text", "héllo")));
    step("add", () -> call(client, "add", Map.of("a", 1, "b", 2)));
    step("fail", () -> call(client, "fail", Map.of()));
    step("unknown tool", () -> call(client, "missing", Map.of()));
    step("progress", () -> {
      var request = CallToolRequest.builder("progress").arguments(Map.of("steps", 3)).progressToken("progress-1").build();
      var result = client.callTool(request);
      settled(PROGRESS, 3);
      // The SDK runs the handlers of notifications concurrently.
      return Map.of("progress", PROGRESS.stream().sorted(Comparator.comparing(Object::toString)).toList(), "result", result);
    });
    step("ask", () -> Map.of("result", call(client, "ask", Map.of()), "questions", QUESTIONS));
    // The SDK cannot cancel a request.
    step("cancel", () -> "unsupported");
    step("resources/list", client::listResources);
    step("resources/templates/list", client::listResourceTemplates);
    step("resources/read", () -> read(client, "test://static"));
    step("resources/read of a template", () -> read(client, "test://items/7"));
    step("resources/read of an unknown resource", () -> read(client, "test://missing"));
    step("subscribe", () -> {
      var resources = client.getServerCapabilities().resources();
      if (resources == null || !Boolean.TRUE.equals(resources.subscribe())) return "unsupported";
      client.subscribeResource(new McpSchema.SubscribeRequest("test://counter"));
      var touched = call(client, "touch", Map.of());
      settled(UPDATED, 1);
      client.unsubscribeResource(new McpSchema.UnsubscribeRequest("test://counter"));
      return Map.of("touched", touched, "updated", UPDATED);
    });
    step("prompts/list", client::listPrompts);
    step("prompts/get", () -> client.getPrompt(new McpSchema.GetPromptRequest("greet", Map.of("name", "Ada"))));
    step("completion", () ->
        client.completeCompletion(
            new McpSchema.CompleteRequest(
                new McpSchema.PromptReference("greet"), new McpSchema.CompleteRequest.CompleteArgument("name", "A"))));
    System.out.println("{\"step\":\"restart\"}");
    System.in.read();
    step("echo after a restart", () -> call(client, "echo", Map.of("text", "again")));
    step("close", client::closeGracefully);
  }

  /** Runs a step and prints its line of the transcript: what it returns, or its error. */
  private static void step(String name, Callable<Object> run) throws Exception {
    var line = new LinkedHashMap<String, Object>();
    line.put("step", name);
    try {
      line.put("result", run.call());
    } catch (McpError error) {
      var details = error.getJsonRpcError();
      line.put("error", details == null ? error.getMessage() : details);
    } catch (Exception error) {
      line.put("error", Map.of("type", error.getClass().getSimpleName(), "message", String.valueOf(error.getMessage())));
    }
    System.out.println(McpJsonDefaults.getMapper().writeValueAsString(line));
  }

  private static Object call(McpSyncClient client, String name, Map<String, Object> arguments) {
    return client.callTool(new CallToolRequest(name, arguments));
  }

  private static Object read(McpSyncClient client, String uri) {
    return client.readResource(new McpSchema.ReadResourceRequest(uri));
  }

  /** Waits until a handler has received this many messages, at most for three seconds. */
  private static void settled(List<Object> received, int count) throws InterruptedException {
    var deadline = System.nanoTime() + Duration.ofSeconds(3).toNanos();
    while (received.size() < count && System.nanoTime() < deadline) Thread.sleep(50);
  }
}
