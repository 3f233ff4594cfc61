import { describe, expect, it } from 'vitest';
import { type Sample, sampleOf, samplesOf } from '../../testing/prometheus-text.ts';
import { type Api, startApi } from './api.fixture.ts';

/** Instead of `call`, which reads JSON. */
const get = (api: Api): Promise<Response> => fetch(`${api.url}/metrics`, { headers: { connection: 'close' } });
const scrape = async (api: Api): Promise<Sample[]> => samplesOf(await (await get(api)).text());

const TOOL = {
  name: 't',
  description: 'x',
  uri: 'http://u/mcp',
  toolType: 'custom',
  namespace: 'crm',
  input_schema: { type: 'object' },
};

describe('/metrics', () => {
  it('returns the Prometheus text format without an envelope', async (context) => {
    const api = await startApi(context);
    const { status, headers } = await get(api);
    expect(status).toBe(200);
    expect(headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8');
    expect(sampleOf(await scrape(api), 'sluice_registry_namespaces')).toBe(1);
  });

  it('reports the current number of entries', async (context) => {
    const api = await startApi(context);
    const tools = { sluice_entry_kind: 'tool' };
    expect(sampleOf(await scrape(api), 'sluice_registry_entries', tools)).toBe(0);
    expect(await api.call('POST', '/api/v1/namespaces', { name: 'crm' })).toMatchObject({ status: 201 });
    expect(await api.call('POST', '/api/v1/tools', TOOL)).toMatchObject({ status: 201 });
    const after = await scrape(api);
    expect(sampleOf(after, 'sluice_registry_namespaces')).toBe(2);
    expect(sampleOf(after, 'sluice_registry_entries', tools)).toBe(1);
  });

  it('answers HEAD without a body, and returns Allow', async (context) => {
    const api = await startApi(context);
    const head = await api.call('HEAD', '/metrics');
    expect(head).toMatchObject({ status: 200, text: '' });
    expect(head.headers['content-type']).toMatch(/^text\/plain/);
    const refused = await api.call('POST', '/metrics');
    expect(refused).toMatchObject({ status: 405, headers: { allow: 'GET, HEAD, OPTIONS' } });
  });

  it('rejects other origins', async (context) => {
    const api = await startApi(context);
    const answer = await api.call('GET', '/metrics', undefined, { origin: 'http://elsewhere.example' });
    expect(answer.status).toBe(403);
    expect(answer.text).not.toContain('sluice_');
  });

  it('supports concurrent scrapes', async (context) => {
    const api = await startApi(context);
    const scrapes = await Promise.all(Array.from({ length: 8 }, () => scrape(api)));
    for (const samples of scrapes) expect(sampleOf(samples, 'sluice_registry_namespaces')).toBe(1);
  });
});
