import { describe, expect, it } from 'vitest';
import { modernClient, post, send } from '../../../../../test/fixtures/raw-client.ts';
import { at, pipelineTests } from '../../app/pipeline.fixture.ts';

const { run, runFilters } = pipelineTests();

const NAMESPACE = '- filter: service_namespace\n- filter: service_methods';
const PING = '{"jsonrpc":"2.0","id":7,"method":"ping"}';
/** A ping of so many bytes. */
const pingOf = (bytes: number) => `${PING}${' '.repeat(bytes - PING.length)}`;

describe('mcp', () => {
  it.each(['continue', 'reject'])('responds 400 to malformed messages, on_invalid %s', async (mode) => {
    const service = await runFilters(`- { filter: mcp, on_invalid: ${mode} }\n${NAMESPACE}`);
    const url = at(service, 'l', '/default/mcp');
    const responses = [
      await post(url, '{'),
      await post(url, '[]'),
      await post(url, '{"jsonrpc":"1.0","id":7,"method":"ping"}'),
      await modernClient(url).call('tools/list', '{}', { 'mcp-method': 'tools/call' }),
      await modernClient(url).call('tools/list', '{}', { 'mcp-protocol-version': '2099-01-01' }),
    ];
    expect(responses.map(({ status, text }) => [status, JSON.parse(text).error.code])).toEqual([
      [400, -32700],
      [400, -32600],
      [400, -32600],
      [400, -32020],
      [400, -32020],
    ]);
    // Well-formed messages pass.
    expect((await post(url, PING)).status).toBe(200);
    expect((await post(at(service, 'l', '/nowhere/mcp'), PING)).status).toBe(404);
  });

  it('applies its own body limit instead of body_limits, and body_limits if it has none', async () => {
    const service = await run(`
listeners:
  - { name: small, address: '127.0.0.1:0', filter_chains: [small] }
  - { name: large, address: '127.0.0.1:0', filter_chains: [large] }
  - { name: usual, address: '127.0.0.1:0', filter_chains: [usual] }
filter_chains:
  - { name: small, filters: [{ filter: mcp, max_body_bytes: 100 }, { filter: service_namespace }, { filter: service_methods }] }
  - { name: large, filters: [{ filter: mcp, max_body_bytes: 300 }, { filter: service_namespace }, { filter: service_methods }] }
  - { name: usual, filters: [{ filter: mcp }, { filter: service_namespace }, { filter: service_methods }] }
body_limits: { max_request_bytes: 200 }
`);
    for (const [listener, limit] of [
      ['small', 100],
      ['large', 300],
      ['usual', 200],
    ] as const) {
      const url = at(service, listener, '/default/mcp');
      expect((await post(url, pingOf(limit))).status).toBe(200);
      const rejected = await post(url, pingOf(limit + 1));
      expect([rejected.status, JSON.parse(rejected.text).error]).toEqual([
        413,
        {
          code: -32600,
          message:
            `request body too large: the limit is ${limit} bytes ` +
            '(body_limits.max_request_bytes of the pipeline file, or max_body_bytes of its filter mcp)',
        },
      ]);
      // Without Content-Length the limit applies while the body is received.
      expect((await post(url, pingOf(limit + 1), { 'transfer-encoding': 'chunked' })).status).toBe(413);
    }
  });

  it('applies its own limit when a chain has several', async () => {
    const service = await run(`
listeners: [{ name: l, address: '127.0.0.1:0', filter_chains: [c] }]
filter_chains:
  - name: c
    filters:
      - { filter: mcp, max_body_bytes: 100, conditions: [{ when: { path: /small/mcp } }] }
      - { filter: mcp, max_body_bytes: 300, conditions: [{ when: { path: /large/mcp } }] }
      - { filter: mcp, conditions: [{ unless: { path: /large/mcp } }] }
      - { filter: service_namespace }
      - { filter: service_methods }
body_limits: { max_request_bytes: 200 }
insecure_options: { skip_pipeline_validation: true }
`);
    for (const [name, limit] of [
      ['small', 100],
      ['large', 300],
      ['usual', 200],
    ] as const) {
      await service.register('namespaces', { name });
      const url = at(service, 'l', `/${name}/mcp`);
      expect((await post(url, pingOf(limit))).status).toBe(200);
      expect((await post(url, pingOf(limit + 1))).status).toBe(413);
    }
  });

  it('without service filters leaves nothing to respond', async () => {
    const filters = `- { filter: mcp, conditions: [{ unless: { headers: { x-raw: 'yes' } } }] }
- filter: service_namespace
- filter: service_methods`;
    await expect(runFilters(filters)).rejects.toThrow(/service_namespace requires an mcp filter without conditions/);
    const service = await run(`
listeners: [{ name: l, address: '127.0.0.1:0', filter_chains: [c] }]
filter_chains:
  - name: c
    filters:
${filters.replace(/^/gm, '      ')}
insecure_options: { skip_pipeline_validation: true }
`);
    const { call } = modernClient(at(service, 'l', '/default/mcp'));
    expect(JSON.parse((await call('tools/list')).text)).toHaveProperty('result.tools');
    for (const method of ['tools/list', 'tools/call', 'vendor/method']) {
      const response = await call(method, '{"name":"x"}', { 'x-raw': 'yes' });
      expect(JSON.parse(response.text)).toMatchObject({ id: null, error: { code: -32601 } });
    }
  });
});

describe('the end of a chain', () => {
  it('with mcp is an unknown method, with the id of the request', async () => {
    const service = await runFilters('- filter: mcp\n- filter: service_namespace');
    const url = at(service, 'l', '/default/mcp');
    const legacy = await post(url, '{"jsonrpc":"2.0","id":"a\\u0041","method":"x/y"}');
    expect([legacy.status, legacy.text]).toEqual([
      200,
      '{"jsonrpc":"2.0","id":"a\\u0041","error":{"code":-32601,"message":"method not found: x/y"}}',
    ]);
    const modern = await modernClient(url).call('tools/list');
    expect([modern.status, JSON.parse(modern.text)]).toMatchObject([404, { id: 1, error: { code: -32601 } }]);
  });

  it('without mcp is a page that is not there', async () => {
    const service = await runFilters('- filter: headers\n- filter: service_intercept');
    const response = await send(at(service, 'l', '/any'), 'POST', {}, PING);
    expect([response.status, JSON.parse(response.text)]).toEqual([
      404,
      { error: { message: 'no filter handles this request', type: 'not_found' } },
    ]);
  });
});
