/** The methods of all protocol versions, requests and notifications, those that servers send to clients too. */
export const MCP_METHODS: ReadonlySet<string> = new Set([
  ...['initialize', 'ping', 'server/discover', 'subscriptions/listen', 'logging/setLevel', 'completion/complete'],
  ...['tools/list', 'tools/call', 'prompts/list', 'prompts/get'],
  ...['resources/list', 'resources/templates/list', 'resources/read', 'resources/subscribe', 'resources/unsubscribe'],
  ...['tasks/get', 'tasks/update', 'tasks/list', 'tasks/result', 'tasks/cancel'],
  ...['sampling/createMessage', 'elicitation/create', 'roots/list'],
  ...['notifications/initialized', 'notifications/cancelled', 'notifications/progress', 'notifications/message'],
  ...['notifications/tools/list_changed', 'notifications/prompts/list_changed', 'notifications/roots/list_changed'],
  ...['notifications/resources/list_changed', 'notifications/resources/updated'],
  ...['notifications/elicitation/complete', 'notifications/subscriptions/acknowledged', 'notifications/tasks/status'],
]);
