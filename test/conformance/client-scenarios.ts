import type { ClientOptions } from '@modelcontextprotocol/client';
import type { Era } from '../fixtures/raw-upstream/message.ts';
import { connect, type SdkClient } from '../fixtures/sdk-client.ts';

/** Inputs of a scenario. */
export interface ScenarioInput {
  /** The gateway's endpoint; the suite is its upstream. */
  readonly url: string;
  readonly era: Era;
  /** Parsed context that the suite passes to the client; null without one. */
  readonly context: unknown;
}

/** Runs the client of one scenario; rejects if a required step fails. */
export type ClientScenario = (input: ScenarioInput) => Promise<void>;

/** Client of each scenario of the suite, by name. The suite checks the requests that it receives. */
export const clientScenarios: ReadonlyMap<string, ClientScenario> = new Map([
  ['initialize', listTools],
  ['json-schema-ref-no-deref', listTools],
  ['tools_call', addNumbers],
  ['elicitation-sep1034-client-defaults', acceptDefaults],
  ['sse-retry', callToolThatReconnects],
  ['request-metadata', declareEverything],
  ['sep-2322-client-request-state', answerInRounds],
  ['http-standard-headers', useEverything],
  ['http-custom-headers', callWithHeaders],
  ['http-invalid-tool-headers', callToolsWithInvalidHeaders],
  ['json-schema-2020-12-preservation', returnSchema],
]);

async function run(
  { url, era }: ScenarioInput,
  capabilities: ClientOptions['capabilities'],
  steps: (connected: SdkClient) => Promise<unknown>,
): Promise<void> {
  const connected = await connect(url, era, { capabilities });
  try {
    await steps(connected);
  } finally {
    await connected.close();
  }
}

async function listTools(input: ScenarioInput): Promise<void> {
  await run(input, {}, ({ client }) => client.listTools());
}

async function addNumbers(input: ScenarioInput): Promise<void> {
  await run(input, {}, async ({ client, callText }) => {
    await client.listTools();
    const sum = await callText('add_numbers', { a: 5, b: 3 });
    if (!sum.includes('8')) throw new Error(`add_numbers returned ${sum}`);
  });
}

/** The client accepts a form without content, and its library fills in the defaults. */
async function acceptDefaults(input: ScenarioInput): Promise<void> {
  await run(input, { elicitation: { form: { applyDefaults: true } } }, async ({ client }) => {
    client.setRequestHandler('elicitation/create', () => ({ action: 'accept', content: {} }));
    await client.listTools();
    await client.callTool({ name: 'test_client_elicitation_defaults', arguments: {} });
  });
}

async function callToolThatReconnects(input: ScenarioInput): Promise<void> {
  await run(input, {}, async ({ client, callText }) => {
    await client.listTools();
    await callText('test_reconnection');
  });
}

async function declareEverything(input: ScenarioInput): Promise<void> {
  const capabilities = { roots: { listChanged: true }, sampling: {}, elicitation: {} };
  await run(input, capabilities, ({ client }) => client.listTools());
}

/** While it handles the server request of one tool, the client calls another tool, which must not get the response. */
async function answerInRounds(input: ScenarioInput): Promise<void> {
  await run(input, { elicitation: {} }, async ({ client, callText }) => {
    client.setRequestHandler('elicitation/create', async () => {
      await callText('test_mrtr_unrelated');
      return { action: 'accept', content: { confirmed: true } };
    });
    await client.listTools();
    await callText('test_mrtr_echo_state');
    await callText('test_mrtr_no_state');
    // A modern client may reject a result without a type; it must not retry the call.
    await callText('test_mrtr_no_result_type').catch(() => undefined);
  });
}

async function useEverything(input: ScenarioInput): Promise<void> {
  await run(input, {}, async ({ client, callText }) => {
    const { tools } = await client.listTools();
    for (const { name } of tools) await callText(name);
    const { resources } = await client.listResources();
    for (const { uri } of resources) await client.readResource({ uri });
    const { prompts } = await client.listPrompts();
    for (const { name } of prompts) await client.getPrompt({ name });
  });
}

/** Calls once with a modern client, which sends the headers itself, and once with a legacy one, for which the gateway does. */
async function callWithHeaders(input: ScenarioInput): Promise<void> {
  const { toolCalls }: Record<string, unknown> = Object(input.context);
  if (!Array.isArray(toolCalls)) throw new Error('the context of the suite has no toolCalls');
  for (const era of ['modern', 'legacy'] as const) {
    await run({ ...input, era }, {}, async ({ client, callText }) => {
      await client.listTools();
      for (const call of toolCalls) {
        const { name, arguments: args }: Record<string, unknown> = Object(call);
        await callText(String(name), Object(args));
      }
    });
  }
}

/** Tools that are omitted from the list cannot be called either. */
async function callToolsWithInvalidHeaders(input: ScenarioInput): Promise<void> {
  const invalid = ['invalid_empty_header', 'invalid_object_header', 'invalid_duplicate_diff_case'];
  await run(input, {}, async ({ client, callText }) => {
    const { tools } = await client.listTools();
    for (const { name } of tools) await callText(name, { region: 'us-west1' });
    for (const name of invalid) {
      const isCallable = await callText(name, {}).then(
        () => true,
        () => false,
      );
      if (isCallable) throw new Error(`${name} can be called`);
    }
  });
}

/** Returns the received schema to the suite. */
async function returnSchema(input: ScenarioInput): Promise<void> {
  await run(input, {}, async ({ client, callText }) => {
    const { tools } = await client.listTools();
    const tool = tools.find(({ name }) => name === 'json_schema_2020_12_tool');
    if (tool === undefined) throw new Error('json_schema_2020_12_tool is not listed');
    await callText('json_schema_echo', { schema: tool.inputSchema });
  });
}
