import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { legacyClient } from '../../../../test/fixtures/raw-client.ts';
import { LIST_END, textResultText, toolList, toolText } from '../../../../test/fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from '../../../../test/fixtures/raw-upstream.ts';
import { type OtlpReceiver, startOtlpReceiver } from '../../testing/otlp-receiver.ts';
import { samplesOf } from '../../testing/prometheus-text.ts';
import { startTestService, type TestService } from '../../testing/service.ts';

// Names that upstreams and clients choose may exceed the size of a span (2 MiB).

const CUT = 'x'.repeat(256);
const LONG = 'x'.repeat(2_500_000);
/** A method that is too long to be relayed. */
const METHOD = `vendor/${LONG}`;

let receiver: OtlpReceiver;
let upstream: RawUpstream;
let service: TestService;
beforeAll(async () => {
  receiver = await startOtlpReceiver();
  for (const [name, value] of Object.entries(receiver.env)) vi.stubEnv(name, value);
  upstream = await startRawUpstream({
    eras: ['legacy'],
    scripts: {
      'tools/list': toolList(toolText(LONG)),
      'tools/call': textResultText('done'),
      'prompts/list': `{"prompts":[{"name":"${LONG}"}],${LIST_END}`,
      'prompts/get': '{"messages":[]}',
    },
  });
  service = await startTestService(receiver.env);
  await service.register('forwards', { name: 'up', address: upstream.url });
  const client = await legacyClient(service.url());
  for (const [method, params] of [
    ['tools/call', `{"name":"${LONG}"}`],
    ['prompts/get', `{"name":"${LONG}"}`],
  ] as const) {
    const { status, text } = await client.call(method, params);
    expect([status, text.slice(0, 200)]).toEqual([200, expect.stringContaining('"result"')]);
  }
  expect((await client.call(METHOD, '{}')).text).toContain('-32601');
});
afterAll(async () => {
  await service?.stop(0);
  await upstream?.close();
  await receiver?.close();
  vi.unstubAllEnvs();
});

it.each([
  [`tools/call ${CUT}`, { 'gen_ai.tool.name': CUT }],
  [`prompts/get ${CUT}`, { 'gen_ai.prompt.name': CUT }],
])('truncates names in spans (case %#)', async (name, attributes) => {
  for (const kind of ['server', 'client']) {
    const span = await receiver.span((each) => each.kind === kind && each.name === name);
    expect(span.attributes).toMatchObject(attributes);
  }
});

it('truncates names in the access log', async () => {
  const lines = await vi.waitFor(
    () => {
      const found = service.log.filter((line) => line.includes('service::mcp::access'));
      expect(found.filter((line) => /"mcp_method":"(?:tools\/call|vendor\/x+|prompts\/get)"/.test(line))).toHaveLength(
        3,
      );
      return found.map((line): Record<string, unknown> => JSON.parse(line));
    },
    { timeout: 10_000 },
  );
  expect(lines.flatMap(({ tool, prompt }) => tool ?? prompt ?? [])).toEqual([CUT, CUT]);
  for (const line of lines) expect(JSON.stringify(line).length).toBeLessThan(3_000);
});

it('truncates names in metrics', async () => {
  const answer = await fetch(`${service.management}/metrics`, { headers: { connection: 'close' } });
  const samples = samplesOf(await answer.text());
  const named = samples.filter(({ name }) => /^mcp_(?:server|client)_operation_duration_seconds_count$/.test(name));
  const names = named.flatMap(({ labels }) => labels.gen_ai_tool_name ?? labels.gen_ai_prompt_name ?? []);
  expect(names).toEqual([CUT, CUT, CUT, CUT]);
});
