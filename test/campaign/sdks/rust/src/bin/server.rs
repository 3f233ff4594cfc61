//! The server of the SDK campaign on the Rust SDK, on the port of PORT.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rmcp::model::*;
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, Peer, RoleServer, ServerHandler, elicit_safe, schemars};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::broadcast;

const COUNTER: &str = "test://counter";
const PAGE: usize = 10;

#[derive(Serialize, Deserialize, schemars::JsonSchema)]
struct Name {
    name: String,
}
elicit_safe!(Name);

#[derive(Clone)]
struct Server {
    canceled: Arc<AtomicUsize>,
    changes: broadcast::Sender<()>,
    subscribers: Arc<Mutex<Vec<Peer<RoleServer>>>>,
}

fn text(value: impl Into<String>) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(value)])
}

fn object(value: Value) -> JsonObject {
    value.as_object().cloned().unwrap_or_default()
}

fn tools() -> Vec<Tool> {
    let schema = |properties: Value, required: Value| {
        object(json!({"type": "object", "properties": properties, "required": required}))
    };
    let number = json!({"type": "number"});
    let named = [
        ("echo", "Returns its text", schema(json!({"text": {"type": "string"}}), json!(["text"]))),
        ("add", "Adds two numbers", schema(json!({"a": number, "b": number}), json!(["a", "b"]))),
        ("fail", "Fails", schema(json!({}), json!([]))),
        ("progress", "Reports progress", schema(json!({"steps": {"type": "integer"}}), json!(["steps"]))),
        ("ask", "Asks for a name", schema(json!({}), json!([]))),
        ("slow", "Runs until it is canceled", schema(json!({}), json!([]))),
        ("canceled", "Number of canceled calls", schema(json!({}), json!([]))),
        ("touch", "Changes the counter", schema(json!({}), json!([]))),
    ];
    let named = named.into_iter().map(|(name, description, schema)| Tool::new(name, description, schema));
    let pages = (1..=30).map(|page| {
        Tool::new(format!("page_{page:02}"), format!("Tool {page}"), object(json!({"type": "object"})))
    });
    named.chain(pages).collect()
}

impl Server {
    async fn progress(&self, arguments: &JsonObject, context: &RequestContext<RoleServer>) -> CallToolResult {
        let steps = arguments["steps"].as_u64().unwrap_or(0);
        if let Some(token) = context.meta.get_progress_token() {
            for step in 1..=steps {
                let progress = ProgressNotificationParam::new(token.clone(), step as f64)
                    .with_total(steps as f64)
                    .with_message(format!("step {step}"));
                let _ = context.peer.notify_progress(progress).await;
            }
        }
        text(format!("{steps} steps"))
    }

    async fn ask(
        &self,
        request: &CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let failed = |error: &dyn std::fmt::Display| ErrorData::internal_error(error.to_string(), None);
        if context.protocol_version() != Some(ProtocolVersion::V_2026_07_28) {
            let answer = context.peer.elicit::<Name>("Your name?").await.map_err(|error| failed(&error))?;
            return Ok(text(format!("accept: {}", answer.map(|answer| answer.name).unwrap_or_default())).into());
        }
        if let Some(answer) = request.input_responses.as_ref().and_then(|responses| responses.get("name")) {
            let name = answer["content"]["name"].as_str().unwrap_or_default();
            return Ok(text(format!("accept: {name}")).into());
        }
        let form = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
        let question = ElicitRequest::new(ElicitRequestParams::FormElicitationParams {
            meta: None,
            message: "Your name?".into(),
            requested_schema: serde_json::from_value(form).map_err(|error| failed(&error))?,
        });
        let requests = InputRequests::from([("name".to_string(), InputRequest::Elicitation(question))]);
        Ok(InputRequiredResult::new(Some(requests), None).into())
    }

    async fn touch(&self) -> CallToolResult {
        let _ = self.changes.send(());
        let subscribers = self.subscribers.lock().unwrap().clone();
        for peer in subscribers {
            let _ = peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(COUNTER)).await;
        }
        text("touched")
    }
}

#[allow(deprecated)]
impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_prompts()
            .enable_completions()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("rust", "1.0.0"))
            .with_instructions("A server for tests.")
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let cursor = request.and_then(|request| request.cursor);
        let start = cursor.map_or(Ok(0), |cursor| cursor.parse::<usize>());
        let start = start.map_err(|_| ErrorData::invalid_params("invalid cursor", None))?;
        let tools = tools();
        let end = tools.len().min(start + PAGE);
        let mut page = ListToolsResult::with_all_items(tools[start..end].to_vec());
        page.next_cursor = (end < tools.len()).then(|| end.to_string());
        Ok(page)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.clone().unwrap_or_default();
        let result = match request.name.as_ref() {
            "echo" => text(arguments["text"].as_str().unwrap_or_default()),
            "add" => {
                let sum = arguments["a"].as_f64().unwrap_or(0.0) + arguments["b"].as_f64().unwrap_or(0.0);
                CallToolResult::structured(json!({"sum": sum}))
            }
            "fail" => CallToolResult::error(vec![ContentBlock::text("the tool failed")]),
            "progress" => self.progress(&arguments, &context).await,
            "ask" => return self.ask(&request, &context).await,
            "slow" => {
                tokio::select! {
                    _ = context.ct.cancelled() => { self.canceled.fetch_add(1, Ordering::SeqCst); }
                    _ = tokio::time::sleep(Duration::from_secs(20)) => {}
                }
                text("done")
            }
            "canceled" => text(self.canceled.load(Ordering::SeqCst).to_string()),
            "touch" => self.touch().await,
            name if name.starts_with("page_") => text(name),
            name => return Err(ErrorData::invalid_params(format!("tool not found: {name}"), None)),
        };
        Ok(result.into())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let resource = |name: &str| Resource::new(format!("test://{name}"), name).with_mime_type("text/plain");
        Ok(ListResourcesResult::with_all_items(vec![resource("static"), resource("counter")]))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let item = ResourceTemplate::new("test://items/{id}", "item").with_mime_type("text/plain");
        Ok(ListResourceTemplatesResult::with_all_items(vec![item]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = request.uri;
        let value = match uri.strip_prefix("test://") {
            Some("static") => "static text".to_string(),
            Some("counter") => "1".to_string(),
            Some(path) if path.starts_with("items/") => format!("item {}", &path["items/".len()..]),
            _ => return Err(ErrorData::resource_not_found("resource not found", Some(json!({"uri": uri})))),
        };
        let contents = ResourceContents::text(value, uri).with_mime_type("text/plain");
        Ok(ReadResourceResult::new(vec![contents]).into())
    }

    async fn subscribe(
        &self,
        _: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.subscribers.lock().unwrap().push(context.peer);
        Ok(())
    }

    async fn unsubscribe(
        &self,
        _: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.subscribers.lock().unwrap().clear();
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.supported_by(&self.get_info().capabilities))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut changes = self.changes.subscribe();
        loop {
            tokio::select! {
                _ = context.cancelled() => return Ok(()),
                Ok(()) = changes.recv() => {
                    let _ = context.sink().notify_resource_updated(COUNTER).await;
                }
            }
        }
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let arguments = vec![PromptArgument::new("name").with_required(true)];
        Ok(ListPromptsResult::with_all_items(vec![Prompt::new("greet", Some("Greets someone"), Some(arguments))]))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let greeting = format!("Greet {}", arguments["name"].as_str().unwrap_or_default());
        Ok(GetPromptResult::new(vec![PromptMessage::new_text(Role::User, greeting)]).into())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let names = ["Ada", "Alan", "Grace"].into_iter();
        let names = names.filter(|name| name.starts_with(&request.argument.value)).map(String::from).collect();
        let completion = CompletionInfo::with_all_values(names);
        Ok(CompleteResult::new(completion.map_err(|error| ErrorData::internal_error(error, None))?))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server {
        canceled: Arc::default(),
        changes: broadcast::channel(16).0,
        subscribers: Arc::default(),
    };
    let service: StreamableHttpService<Server, LocalSessionManager> =
        StreamableHttpService::new(move || Ok(server.clone()), Default::default(), StreamableHttpServerConfig::default());
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{}", std::env::var("PORT")?)).await?;
    axum::serve(listener, axum::Router::new().nest_service("/mcp", service)).await?;
    Ok(())
}
