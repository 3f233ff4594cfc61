//! The client of the SDK campaign on the Rust SDK: runs the scenario with the server at the address given.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rmcp::model::*;
use rmcp::service::{NotificationContext, PeerRequestOptions, RequestContext, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt, ErrorData, RoleClient, ServiceError};
use serde::Serialize;
use serde_json::{Value, json};

const STEP: Duration = Duration::from_secs(20);
const COUNTER: &str = "test://counter";

/// What the handlers have received.
#[derive(Default)]
struct Received {
    questions: Vec<Value>,
    progress: Vec<Value>,
    updated: Vec<String>,
}

#[derive(Clone, Default)]
struct Handler(Arc<Mutex<Received>>);

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let capabilities = ClientCapabilities::builder().enable_elicitation().build();
        ClientConfig::new(capabilities, Implementation::new("rust", "1.0.0"))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        self.0.lock().unwrap().questions.push(json!(request));
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(json!({"name": "Ada"})))
    }

    async fn on_progress(&self, done: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.0.lock().unwrap().progress.push(json!([done.progress, done.total, done.message]));
    }

    async fn on_resource_updated(&self, params: ResourceUpdatedNotificationParam, _: NotificationContext<RoleClient>) {
        self.0.lock().unwrap().updated.push(params.uri);
    }
}

type Client = RunningService<RoleClient, Handler>;

fn failure(error: ServiceError) -> Value {
    match error {
        ServiceError::McpError(error) => json!(error),
        error => json!(error.to_string()),
    }
}

/// Runs a step and prints its line of the transcript: what it returns, or its error.
async fn step<T: Serialize>(name: &str, run: impl Future<Output = Result<T, ServiceError>>) {
    let line = match tokio::time::timeout(STEP, run).await {
        Ok(Ok(result)) => json!({"step": name, "result": result}),
        Ok(Err(error)) => json!({"step": name, "error": failure(error)}),
        Err(_) => json!({"step": name, "error": "no response"}),
    };
    println!("{line}");
}

/// Reads a value until it is the expected one, at most for three seconds, and returns the last one.
async fn settled<T, F: Future<Output = T>>(read: impl Fn() -> F, expected: impl Fn(&T) -> bool) -> T {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(3);
    loop {
        let value = read().await;
        if expected(&value) || tokio::time::Instant::now() >= deadline {
            return value;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn call(name: &'static str, arguments: Value) -> CallToolRequestParams {
    CallToolRequestParams::new(name).with_arguments(arguments.as_object().cloned().unwrap_or_default())
}

async fn cancel(client: &Client) -> Result<(), ServiceError> {
    let request = ClientRequest::CallToolRequest(CallToolRequest::new(call("slow", json!({}))));
    let slow = client.peer().send_cancellable_request(request, PeerRequestOptions::no_options()).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    slow.cancel(Some("enough".into())).await
}

async fn canceled(client: &Client) -> Result<Value, ServiceError> {
    let count = || async {
        match client.call_tool(call("canceled", json!({}))).await {
            Ok(result) => json!(result.content),
            Err(error) => failure(error),
        }
    };
    Ok(settled(count, |content| content[0]["text"] == "1").await)
}

#[allow(deprecated)]
async fn subscribe(client: &Client) -> Result<Value, ServiceError> {
    let info = client.peer().peer_info();
    let resources = info.as_ref().and_then(|info| info.capabilities.resources.clone());
    if resources.and_then(|resources| resources.subscribe) != Some(true) {
        return Ok(json!("unsupported"));
    }
    let modern = info.is_some_and(|info| info.protocol_version == ProtocolVersion::V_2026_07_28);
    if modern {
        let filter = SubscriptionFilter::builder().resource_subscriptions(vec![COUNTER.to_string()]).build();
        let mut subscription = client.peer().listen(filter).await?;
        let touched = client.call_tool(call("touch", json!({}))).await?;
        let updated = tokio::time::timeout(Duration::from_secs(3), subscription.next()).await;
        let updated = updated.ok().transpose()?.flatten().map(|message| json!(message));
        subscription.cancel().await?;
        return Ok(json!({"touched": touched, "updated": updated.map(|message| message["params"]["uri"].clone())}));
    }
    client.subscribe(SubscribeRequestParams::new(COUNTER)).await?;
    let touched = client.call_tool(call("touch", json!({}))).await?;
    let received = &client.service().0;
    let updated = || async { received.lock().unwrap().updated.clone() };
    let updated = settled(updated, |uris: &Vec<String>| !uris.is_empty()).await;
    client.unsubscribe(UnsubscribeRequestParams::new(COUNTER)).await?;
    Ok(json!({"touched": touched, "updated": updated.first()}))
}

async fn scenario(client: &Client) -> Result<(), Box<dyn std::error::Error>> {
    let received = client.service().0.clone();
    step("tools/list", client.list_all_tools()).await;
    step("echo", client.call_tool(call("echo", json!({"text": "héllo"})))).await;
    step("add", client.call_tool(call("add", json!({"a": 1, "b": 2})))).await;
    step("fail", client.call_tool(call("fail", json!({})))).await;
    step("unknown tool", client.call_tool(call("missing", json!({})))).await;
    step("progress", async {
        let result = client.call_tool(call("progress", json!({"steps": 3}))).await?;
        let progress = || async { received.lock().unwrap().progress.clone() };
        let mut progress = settled(progress, |progress: &Vec<Value>| progress.len() == 3).await;
        // The SDK runs the handlers of notifications concurrently.
        progress.sort_by_key(|done| done[0].to_string());
        Ok(json!({"progress": progress, "result": result}))
    })
    .await;
    step("ask", async {
        let result = client.call_tool(call("ask", json!({}))).await?;
        Ok(json!({"questions": received.lock().unwrap().questions, "result": result}))
    })
    .await;
    step("cancel", cancel(client)).await;
    step("canceled calls", canceled(client)).await;
    step("resources/list", client.list_all_resources()).await;
    step("resources/templates/list", client.list_all_resource_templates()).await;
    let read = |uri: &str| client.read_resource(ReadResourceRequestParams::new(uri));
    step("resources/read", read("test://static")).await;
    step("resources/read of a template", read("test://items/7")).await;
    step("resources/read of an unknown resource", read("test://missing")).await;
    step("subscribe", subscribe(client)).await;
    step("prompts/list", client.list_all_prompts()).await;
    let arguments = json!({"name": "Ada"}).as_object().cloned().unwrap_or_default();
    step("prompts/get", client.get_prompt(GetPromptRequestParams::new("greet").with_arguments(arguments))).await;
    step("completion", client.complete_prompt_argument("greet", "name", "A", None)).await;
    println!(r#"{{"step":"restart"}}"#);
    std::io::stdin().read_line(&mut String::new())?;
    step("echo after a restart", client.call_tool(call("echo", json!({"text": "again"})))).await;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).ok_or("no address")?;
    let lifecycle = ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        legacy_version: None,
    };
    let transport = StreamableHttpClientTransport::from_uri(address);
    let client = Handler::default().serve_with_lifecycle(transport, lifecycle).await?;
    println!("{}", json!({"step": "initialize", "result": client.peer().peer_info()}));
    scenario(&client).await?;
    client.cancel().await?;
    println!("{}", json!({"step": "close", "result": null}));
    Ok(())
}
