import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { startWorkingService } from '../packages/server/src/upstreams/grpc/fixtures/working-service.ts';
import { type EvaluatedService, evaluator, startEvaluatedService } from './fixtures/evaluated/evaluated-service.ts';
import { freePort } from './fixtures/free-port.ts';
import { findPrometheus } from './fixtures/prometheus.ts';
import { modernClient } from './fixtures/raw-client.ts';
import { textResultText, toolList, toolText } from './fixtures/raw-upstream/texts.ts';
import { startRawUpstream } from './fixtures/raw-upstream.ts';
import { type Program, startProgram } from './login/program.ts';

// The alerts and the dashboard of deploy/, and /metrics, with Prometheus itself.

const DEPLOY = join(import.meta.dirname, '../deploy');
const RULES = join(DEPLOY, 'prometheus');
const prometheus = findPrometheus();
const run = promisify(execFile);
const promtool = (...args: string[]) => run(prometheus?.promtool ?? '', args, { cwd: RULES });

describe.runIf(prometheus !== undefined)('the alerts', () => {
  it('are valid', async () => {
    const { stdout } = await promtool('check', 'rules', '--lint=all', '--lint-fatal', 'sluice.rules.yml');
    expect(stdout).toMatch(/SUCCESS: \d+ rules found/);
    expect((await promtool('check', 'config', 'prometheus.yml')).stdout).toMatch(/SUCCESS/);
  });

  it('fire, and do not fire, as their unit tests say', async () => {
    expect((await promtool('test', 'rules', 'sluice.rules.test.yml')).stdout).toMatch(/SUCCESS/);
  });
});

const dashboardSchema = z.object({
  panels: z.array(
    z.object({
      title: z.string(),
      targets: z.array(z.object({ expr: z.string(), legendFormat: z.string() })).default([]),
    }),
  ),
  templating: z.object({ list: z.array(z.object({ name: z.string(), definition: z.string().optional() })) }),
});
const dashboard = dashboardSchema.parse(JSON.parse(await readFile(join(DEPLOY, 'grafana/sluice.json'), 'utf8')));
const queries = dashboard.panels.flatMap(({ title, targets }) => targets.map((target) => ({ title, ...target })));
const lists = dashboard.templating.list.flatMap(({ definition = '' }) => {
  const [, expr, label] = /^label_values\((.*), (\w+)\)$/.exec(definition) ?? [];
  return expr === undefined || label === undefined ? [] : [{ expr, label }];
});

const FAILED = { kind: 'http', status: 500, type: 'text/plain', body: 'failed' } as const;

/** Values of Grafana's variables. */
const VARIABLES = { $__rate_interval: '15s', $job: 'sluice', $instance: '.*', $namespace: '.*' };

const answerSchema = z.object({
  data: z.object({ result: z.array(z.object({ metric: z.record(z.string(), z.string()) })) }),
});

const rulesSchema = z.object({
  data: z.object({
    groups: z.array(
      z.object({
        rules: z.array(
          z.object({ name: z.string(), query: z.string(), health: z.string(), lastError: z.string().optional() }),
        ),
      }),
    ),
  }),
});

describe.runIf(prometheus !== undefined)('Prometheus', () => {
  let folder: string;
  let evaluated: EvaluatedService;
  let server: Program;
  let url: string;
  const closing: (() => unknown)[] = [];

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'sluice-prometheus-'));
    const upstream = await startRawUpstream({
      scripts: {
        'tools/list': toolList(toolText('a')),
        'tools/call': ({ body }) => (body.includes('"fail"') ? FAILED : textResultText('done')),
      },
    });
    const worker = await startWorkingService();
    evaluated = await startEvaluatedService();
    const { service } = evaluated;
    await service.register('forwards', { name: 'crm', address: upstream.url, namespace: 'crm' });
    const entry = { name: 'worker', serviceType: 'tool-invoker', address: worker.address };
    expect((await service.manage('POST', '/services', entry)).status).toBe(201);
    const tool = { description: 'd', uri: 'worker:1', toolType: 'worker', namespace: 'crm' };
    await service.register('tools', { ...tool, name: 'work', input_schema: { type: 'object' } });
    await evaluated.apply(evaluator('guard', { namespace: 'crm' }));
    const port = await freePort();
    const targets = [new URL(service.management).host];
    const config = {
      global: { scrape_interval: '500ms', evaluation_interval: '1s' },
      rule_files: [join(RULES, 'sluice.rules.yml')],
      scrape_configs: [{ job_name: 'sluice', static_configs: [{ targets }] }],
    };
    await writeFile(join(folder, 'prometheus.yml'), JSON.stringify(config));
    url = `http://127.0.0.1:${port}`;
    server = await startProgram({
      command: prometheus?.server ?? '',
      args: [
        `--config.file=${join(folder, 'prometheus.yml')}`,
        `--storage.tsdb.path=${join(folder, 'data')}`,
        `--web.listen-address=127.0.0.1:${port}`,
      ],
      env: { PATH: process.env.PATH ?? '' },
      cwd: folder,
      ready: `${url}/-/ready`,
      deadlineMs: 60_000,
    });
    closing.push(
      () => server.stop(),
      () => evaluated.close(),
      () => upstream.close(),
      () => worker.close(),
      () => rm(folder, { recursive: true }),
    );
    await serveTraffic();
  });
  afterAll(async () => {
    for (const close of closing) await close();
  });

  /** Calls and completions that succeed, are rejected and fail. */
  async function serveTraffic(): Promise<void> {
    const { service, llm } = evaluated;
    const client = await modernClient(service.url('crm'));
    await client.call('tools/list');
    await client.call('tools/call', '{"name":"a","arguments":{}}');
    await client.call('tools/call', '{"name":"a","arguments":{"x":"fail"}}');
    await client.call('tools/call', '{"name":"work","arguments":{}}');
    llm.script('block:no', { status: 500 });
    await client.call('tools/call', '{"name":"a","arguments":{}}');
    await client.call('tools/call', '{"name":"a","arguments":{}}');
    for (const model of ['m-1', 'error-1']) {
      const response = await fetch(`http://${service.addresses.inference}/v1/chat/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', connection: 'close' },
        body: JSON.stringify({ model, messages: [{ role: 'user', content: 'hello' }] }),
      });
      await response.arrayBuffer();
    }
    // Rejected by a filter, and a status of 500 or above.
    await fetch(service.url('none'), { method: 'POST', body: '{}', headers: { connection: 'close' } });
    await fetch(`${service.management}/api/v1/chat`, { headers: { connection: 'close' } });
  }

  async function query(expr: string): Promise<Record<string, string>[]> {
    const replaced = Object.entries(VARIABLES).reduce((so, [name, value]) => so.replaceAll(name, value), expr);
    const response = await fetch(`${url}/api/v1/query?${new URLSearchParams({ query: replaced })}`);
    const body: unknown = await response.json();
    if (response.status !== 200) throw new Error(`${replaced}: ${JSON.stringify(body)}`);
    return answerSchema.parse(body).data.result.map(({ metric }) => metric);
  }

  it.each(queries)('has data for the panel "$title": $legendFormat', async ({ expr, legendFormat }) => {
    const labels = [...legendFormat.matchAll(/\{\{(\w+)\}\}/g)].map(([, label = '']) => label);
    // A rate needs two readings, between which requests have to arrive for those panels that show no zeros.
    const found = async () => {
      const metrics = await query(expr);
      if (metrics.length === 0) await serveTraffic();
      return metrics;
    };
    await expect.poll(found, { timeout: 60_000, interval: 500 }).not.toEqual([]);
    const actual = (await found()).flatMap((metric) => Object.keys(metric));
    expect(actual).toEqual(expect.arrayContaining(labels));
  });

  it.each(lists)('has values of $label for the lists of the dashboard', async ({ expr, label }) => {
    await expect.poll(async () => (await query(expr)).some((metric) => metric[label] !== undefined)).toBe(true);
  });

  it('evaluates the alerts, and has data for each of them', async () => {
    const rules = async () => {
      const response = await fetch(`${url}/api/v1/rules`);
      return rulesSchema.parse(await response.json()).data.groups.flatMap((group) => group.rules);
    };
    await expect.poll(async () => (await rules()).every(({ health }) => health !== 'unknown')).toBe(true);
    for (const { name, query: expr, health, lastError } of await rules()) {
      expect({ name, health, lastError }).toEqual({ name, health: 'ok' });
      for (const [selector] of expr.matchAll(/\w*\{[^}]*\}/g)) {
        // States that this test does not reach.
        if (/overflow|"busy"|"503"/.test(selector)) continue;
        expect((await query(selector)).length, `${name}: ${selector}`).toBeGreaterThan(0);
      }
    }
  });

  it('accepts /metrics after traffic', async () => {
    const child = spawn(prometheus?.promtool ?? '', ['check', 'metrics'], { stdio: ['pipe', 'pipe', 'pipe'] });
    const exposition = await fetch(`${evaluated.service.management}/metrics`, { headers: { connection: 'close' } });
    child.stdin.end(await exposition.text());
    const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
    expect({ stdout, stderr, code }).toEqual({ stdout: '', stderr: '', code: 0 });
  });
});
