import { expect, it } from 'vitest';
import type { Era } from '../../../../../test/fixtures/raw-upstream/message.ts';
import { capabilityScripts } from '../../../testing/capability-scripts.ts';
import { client, eras, errorOf, relayTests } from '../../../testing/relay.ts';

const { register, upstreamWith } = relayTests();

const DECLARED =
  '{"tools":{},"prompts":{},"resources":{"subscribe":true},"completions":{},"logging":{},"experimental":{"acme":{}}}';
const REQUESTS: readonly (readonly [method: string, params: string, only?: Era])[] = [
  ['tools/call', '{"name":"a"}'],
  ['resources/read', '{"uri":"test://a"}'],
  ['prompts/get', '{"name":"p"}'],
  ['completion/complete', '{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"x","value":""}}'],
  ['resources/subscribe', '{"uri":"test://a"}', 'legacy'],
  ['acme/do', '{}'],
];

const FORMS = {
  'JSON-RPC error': (status: number) => ({
    kind: 'error' as const,
    status,
    text: '{"code":-32001,"message":"token expired"}',
  }),
  'JSON object': (status: number) => ({
    kind: 'http' as const,
    status,
    type: 'application/json',
    body: '{"error":"invalid_token"}',
  }),
  text: (status: number) => ({ kind: 'http' as const, status, type: 'text/plain', body: 'Forbidden' }),
};

it.each(eras.flatMap((from) => eras.flatMap((to) => [401, 403, 407].map((status) => [from, to, status] as const))))(
  'no request of a %s client has the status of its %s upstream: %i',
  async (from, to, status) => {
    const upstream = await upstreamWith(
      {
        ...capabilityScripts(DECLARED),
        'resources/list':
          '{"resources":[{"uri":"test://a","name":"a"}],"resultType":"complete","ttlMs":0,"cacheScope":"private"}',
        'prompts/list': '{"prompts":[{"name":"p"}],"resultType":"complete","ttlMs":0,"cacheScope":"private"}',
      },
      { eras: [to] },
    );
    const caller = await client(from, await register(upstream.url));
    const statuses: unknown[] = [];
    for (const [method, params, only] of REQUESTS) {
      // Only relayed within an era.
      if ((only !== undefined && only !== from) || (method === 'acme/do' && from !== to)) continue;
      for (const [form, response] of Object.entries(FORMS)) {
        upstream.scripts[method] = response(status);
        const { status: received, headers, ...rest } = await caller.call(method, params);
        statuses.push([method, form, received, headers['www-authenticate']]);
        if (form === 'JSON-RPC error' && method !== 'resources/subscribe') {
          expect(errorOf({ status: received, headers, ...rest })).toEqual({ code: -32001, message: 'token expired' });
        }
      }
    }
    expect(statuses).toEqual(statuses.map((one) => (Array.isArray(one) ? [one[0], one[1], 200, undefined] : one)));
  },
);
