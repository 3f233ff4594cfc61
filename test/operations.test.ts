import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { z } from 'zod';
import { productMetrics } from './operations/product-names.ts';

// docs/operations.md, against the alerts and the configurations that it explains.

const ROOT = join(import.meta.dirname, '..');
const read = (path: string) => readFile(join(ROOT, path), 'utf8');
const page = await read('docs/operations.md');
const anchors = new Set(
  [...page.matchAll(/^#+ (.*)$/gm)].map(([, title = '']) =>
    title
      .toLowerCase()
      .replaceAll(/[^\w -]/g, '')
      .replaceAll(' ', '-'),
  ),
);

const rulesSchema = z.object({
  groups: z.array(
    z.object({
      rules: z.array(
        z.object({
          alert: z.string(),
          labels: z.object({ severity: z.string() }),
          annotations: z.object({ summary: z.string(), runbook: z.string() }),
        }),
      ),
    }),
  ),
});
const { groups } = rulesSchema.parse(parse(await read('deploy/prometheus/sluice.rules.yml')));
const alerts = groups.flatMap(({ rules }) => rules);
const documented = [...page.matchAll(/^\| (Sluice\w+) \| (\w+) \| .* \| \[.*\]\(#([\w-]+)\) \|$/gm)].map(
  ([, alert = '', severity = '', anchor = '']) => ({ alert, severity, anchor }),
);

describe('the alerts', () => {
  it('are those of the page, with severity and section', () => {
    const actual = alerts.map(({ alert, labels: { severity }, annotations: { runbook } }) => ({
      alert,
      severity,
      anchor: runbook.replace('docs/operations.md#', ''),
    }));
    const byName = (one: { alert: string }, other: { alert: string }) => one.alert.localeCompare(other.alert);
    expect(documented.toSorted(byName)).toEqual(actual.toSorted(byName));
  });

  it('select the job of both ways to scrape', async () => {
    const rules = await read('deploy/prometheus/sluice.rules.yml');
    const jobs = new Set([...rules.matchAll(/job="([^"]*)"/g)].map(([, job]) => job));
    const prometheus = parse(await read('deploy/prometheus/prometheus.yml'));
    expect([...jobs]).toEqual([prometheus.scrape_configs[0].job_name]);
    expect(await read('deploy/helm/sluice/templates/servicemonitor.yaml')).toContain(
      'jobLabel: app.kubernetes.io/name\n',
    );
    expect([...jobs]).toEqual([parse(await read('deploy/helm/sluice/Chart.yaml')).name]);
  });

  it('each have a unit test in which they fire, and one in which they do not', async () => {
    const tests = await read('deploy/prometheus/sluice.rules.test.yml');
    for (const { alert } of alerts) {
      expect(tests, alert).toMatch(new RegExp(`alertname: ${alert}, exp_alerts: \\[\\]`));
      expect(tests, alert).toMatch(new RegExp(`alertname: ${alert}\\n\\s+exp_alerts:\\n\\s+- exp_labels`));
    }
  });
});

describe('the page', () => {
  it('has the sections that it and other pages refer to', async () => {
    const others = ['docs/deployment.md', 'docs/configuration.md', 'docs/security.md'];
    const links = [
      ...[...page.matchAll(/\]\(#([\w-]+)\)/g)],
      ...(await Promise.all(others.map(read))).flatMap((text) => [...text.matchAll(/operations\.md#([\w-]+)/g)]),
    ].map(([, anchor = '']) => anchor);
    expect(links.filter((anchor) => !anchors.has(anchor))).toEqual([]);
    expect(
      alerts.flatMap(({ annotations }) => annotations.runbook.split('#').slice(1)).filter((each) => !anchors.has(each)),
    ).toEqual([]);
  });

  it('and the reference name every metric', async () => {
    const reference = await read('docs/telemetry.md');
    const { metrics } = await productMetrics();
    expect(metrics.filter((name) => !reference.includes(`\`${name}\``))).toEqual([]);
  });

  it('has measured figures', () => {
    const [, figures = ''] = /<!-- sizing -->\n(.*?)<!-- \/sizing -->/s.exec(page) ?? [];
    for (const row of [
      'tools/call',
      'completion',
      'per registered tool',
      'per session',
      'per open stream',
      'per recorded completion',
    ]) {
      expect(figures).toMatch(new RegExp(`^\\| [^|]*${row}[^|]*\\| [\\d.,]+ [µKMi]+`, 'm'));
    }
  });

  it('says which configurations of reverse proxies are tried', async () => {
    for (const [, file = '', tried = ''] of page.matchAll(/^\| \w+ \| `([\w.]+)` \| (tested|not tried)/gm)) {
      const text = await read(`deploy/reverse-proxies/${file}`);
      expect(text.includes('NOT TRIED'), file).toBe(tried === 'not tried');
    }
  });
});
