import type { ClientOptions } from '@modelcontextprotocol/client';
import type { Era } from '../fixtures/raw-upstream/message.ts';
import { connect, type SdkClient } from '../fixtures/sdk-client.ts';

/** What a scenario is played with. */
export interface Stage {
  /** The gateway's endpoint, with the referee behind it. */
  readonly url: string;
  readonly era: Era;
  /** What the referee hands to the client, parsed; null when nothing. */
  readonly given: unknown;
}

/** Plays the client of one scenario; rejects when something the client needs does not work. */
export type ClientScenario = (stage: Stage) => Promise<void>;

/** What a client does in each of the referee's scenarios, by name. The referee judges what then reaches it. */
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

async function play(
  { url, era }: Stage,
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

async function listTools(stage: Stage): Promise<void> {
  await play(stage, {}, ({ client }) => client.listTools());
}

async function addNumbers(stage: Stage): Promise<void> {
  await play(stage, {}, async ({ client, callText }) => {
    await client.listTools();
    const sum = await callText('add_numbers', { a: 5, b: 3 });
    if (!sum.includes('8')) throw new Error(`add_numbers answered ${sum}`);
  });
}

/** The client accepts a form without filling anything in, and its library puts the defaults there. */
async function acceptDefaults(stage: Stage): Promise<void> {
  await play(stage, { elicitation: { form: { applyDefaults: true } } }, async ({ client }) => {
    client.setRequestHandler('elicitation/create', () => ({ action: 'accept', content: {} }));
    await client.listTools();
    await client.callTool({ name: 'test_client_elicitation_defaults', arguments: {} });
  });
}

async function callToolThatReconnects(stage: Stage): Promise<void> {
  await play(stage, {}, async ({ client, callText }) => {
    await client.listTools();
    await callText('test_reconnection');
  });
}

async function declareEverything(stage: Stage): Promise<void> {
  const capabilities = { roots: { listChanged: true }, sampling: {}, elicitation: {} };
  await play(stage, capabilities, ({ client }) => client.listTools());
}

/** In the midst of answering one tool's question the client calls another tool, which must not get the answer. */
async function answerInRounds(stage: Stage): Promise<void> {
  await play(stage, { elicitation: {} }, async ({ client, callText }) => {
    client.setRequestHandler('elicitation/create', async () => {
      await callText('test_mrtr_unrelated');
      return { action: 'accept', content: { confirmed: true } };
    });
    await client.listTools();
    await callText('test_mrtr_echo_state');
    await callText('test_mrtr_no_state');
    // A modern client may take a result without a type for a broken one; it must only not ask again.
    await callText('test_mrtr_no_result_type').catch(() => undefined);
  });
}

async function useEverything(stage: Stage): Promise<void> {
  await play(stage, {}, async ({ client, callText }) => {
    const { tools } = await client.listTools();
    for (const { name } of tools) await callText(name);
    const { resources } = await client.listResources();
    for (const { uri } of resources) await client.readResource({ uri });
    const { prompts } = await client.listPrompts();
    for (const { name } of prompts) await client.getPrompt({ name });
  });
}

/**
 * Once with a modern client, which sends the headers itself, and once with a legacy one, for which the gateway has to
 * make them.
 */
async function callWithHeaders(stage: Stage): Promise<void> {
  const { toolCalls }: Record<string, unknown> = Object(stage.given);
  if (!Array.isArray(toolCalls)) throw new Error('the referee names no calls');
  for (const era of ['modern', 'legacy'] as const) {
    await play({ ...stage, era }, {}, async ({ client, callText }) => {
      await client.listTools();
      for (const call of toolCalls) {
        const { name, arguments: args }: Record<string, unknown> = Object(call);
        await callText(String(name), Object(args));
      }
    });
  }
}

/** Tools that are left out of the list cannot be called either, by a client that knows of them all the same. */
async function callToolsWithInvalidHeaders(stage: Stage): Promise<void> {
  const invalid = ['invalid_empty_header', 'invalid_object_header', 'invalid_duplicate_diff_case'];
  await play(stage, {}, async ({ client, callText }) => {
    const { tools } = await client.listTools();
    for (const { name } of tools) await callText(name, { region: 'us-west1' });
    for (const name of invalid) {
      const called = await callText(name, {}).then(
        () => true,
        () => false,
      );
      if (called) throw new Error(`${name} could be called`);
    }
  });
}

/** Hands the schema that arrived back to the referee. */
async function returnSchema(stage: Stage): Promise<void> {
  await play(stage, {}, async ({ client, callText }) => {
    const { tools } = await client.listTools();
    const tool = tools.find(({ name }) => name === 'json_schema_2020_12_tool');
    if (tool === undefined) throw new Error('json_schema_2020_12_tool is not listed');
    await callText('json_schema_echo', { schema: tool.inputSchema });
  });
}
