import { describe, expect, it } from 'vitest';
import { reply } from '../../../../test/fixtures/raw-client.ts';
import { textResultText, toolList, toolText } from '../../../../test/fixtures/raw-upstream/texts.ts';
import { client, eras, errorOf, lastCall, relayTests } from '../../testing/relay.ts';
import { eventsAt } from '../../testing/tool-call-events.ts';

const relay = relayTests();
const { register, upstreamWith } = relay;

const visible = (...to: readonly string[]) => `,"_meta":{"ui":{"visibility":${JSON.stringify(to)}}}`;
const APP = visible('app');

/** An upstream with these tools, as JSON text. */
const withTools = (...tools: readonly string[]) =>
  upstreamWith({ 'tools/list': toolList(...tools), 'tools/call': textResultText('done') });

const namespaceOf = (url: string) => new URL(url).pathname.split('/')[1] ?? '';

async function join(url: string, address: string, prefix: string): Promise<void> {
  const namespace = namespaceOf(url);
  await relay.service.register('forwards', { name: `${namespace}-${prefix}`, address, namespace, prefix });
}

describe.each(eras)('a tool that only apps see, with a prefix (%s)', (era) => {
  const call = async (url: string, name: string) =>
    (await client(era, url)).call('tools/call', `{"name":${JSON.stringify(name)},"arguments":{"n":1.0},"x":1}`);
  const notFound = (name: string) => ({ code: -32602, message: `tool not found: ${name}` });

  it('is called by its own name, as the tool that it is served as', async () => {
    const upstream = await withTools(toolText('refresh', APP), toolText('show'));
    const url = await register(upstream.url, { prefix: 'crm_' });
    for (const name of ['refresh', 'crm_refresh']) {
      expect(reply(await call(url, name))).toContain('"text":"done"');
      expect(lastCall(upstream).params).toMatchObject({ name: 'refresh', arguments: { n: 1 }, x: 1 });
      expect(lastCall(upstream).body).toContain('"n":1.0');
    }
    const events = await eventsAt(relay.service, url);
    expect(new Set(events.map(({ toolName }) => toolName))).toEqual(new Set(['crm_refresh']));
  });

  it.each([
    ['models see it, too', visible('model', 'app')],
    ['everyone sees it', ''],
    ['no one sees it', visible()],
    ['models see it', visible('model')],
    ['its visibility is no array', ',"_meta":{"ui":{"visibility":"app"}}'],
  ])('is not found if %s', async (_why, more) => {
    const url = await register((await withTools(toolText('refresh', more))).url, { prefix: 'crm_' });
    expect(errorOf(await call(url, 'refresh'))).toEqual(notFound('refresh'));
    expect(reply(await call(url, 'crm_refresh'))).toContain('"text":"done"');
  });

  it('is the tool of an operator if that has the name', async () => {
    const upstream = await withTools(toolText('refresh', APP));
    const other = await withTools(toolText('refresh'));
    const url = await register(upstream.url, { prefix: 'crm_' });
    await relay.service.register('forwards', {
      name: `${namespaceOf(url)}-o`,
      address: other.url,
      namespace: namespaceOf(url),
    });
    expect(reply(await call(url, 'refresh'))).toContain('"text":"done"');
    expect([upstream.count('tools/call'), other.count('tools/call')]).toEqual([0, 1]);
  });

  it.each([
    ['for apps, too', APP],
    ['for everyone', ''],
  ])('is not found if another forward has one of that name, %s', async (_what, more) => {
    const url = await register((await withTools(toolText('refresh', APP))).url, { prefix: 'crm_' });
    await join(url, (await withTools(toolText('refresh', more))).url, 'erp_');
    expect(errorOf(await call(url, 'refresh'))).toEqual(notFound('refresh'));
  });

  it('is not found while it is disabled, or hidden by its forward', async () => {
    const upstream = await withTools(toolText('refresh', APP), toolText('purge', APP));
    const url = await register(upstream.url, { prefix: 'crm_', expose: { tools: { deny: ['purge'] } } });
    const disable = { enabled: false, names: ['crm_refresh'], namespace: namespaceOf(url) };
    expect((await relay.service.manage('POST', '/tools/enabled', disable)).status).toBe(200);
    for (const name of ['refresh', 'purge', 'crm_refresh', 'crm_purge']) {
      expect(errorOf(await call(url, name))).toEqual(notFound(name));
    }
    expect(upstream.count('tools/call')).toBe(0);
  });

  it('is not found while its forward is blocked', async () => {
    const upstream = await withTools(toolText('refresh', APP));
    const url = await register(upstream.url, { prefix: 'crm_' });
    expect((await relay.service.manage('PUT', `/blocks/forward:${namespaceOf(url)}`)).status).toBe(200);
    for (const name of ['refresh', 'crm_refresh']) expect(errorOf(await call(url, name))).toEqual(notFound(name));
    expect(upstream.count('tools/call')).toBe(0);
  });
});
