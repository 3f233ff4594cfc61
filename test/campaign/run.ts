import { readFile, writeFile } from 'node:fs/promises';
import { cpus } from 'node:os';
import { parseArgs } from 'node:util';
import { backupCampaign } from './backup.ts';
import type { Campaign } from './campaign.ts';
import { consoleCampaign } from './console.ts';
import { descriptorsCampaign } from './descriptors.ts';
import { evaluatorsCampaign } from './evaluators.ts';
import { fuzzCampaign } from './fuzz.ts';
import { hiddenCampaign } from './hidden.ts';
import { hostileMessagesCampaign } from './hostile-messages.ts';
import { killCampaign } from './kill.ts';
import { loginCampaign } from './login.ts';
import { modelCampaign } from './model.ts';
import { modelsCampaign } from './models.ts';
import { pipelineCampaign } from './pipeline.ts';
import { propertiesCampaign } from './properties.ts';
import { replicasCampaign } from './replicas.ts';
import { sdksCampaign } from './sdks.ts';
import { sessionsCampaign } from './sessions.ts';
import { sizingCampaign } from './sizing.ts';
import { stallsCampaign } from './stalls.ts';
import { suspendedCampaign } from './suspended.ts';
import { urisCampaign } from './uris.ts';

/**
 * `npm run campaign -- name … [--rounds N]`: runs the named campaigns, or `all`, and writes the results to their blocks in
 * docs/campaign.md, or in the page of the campaign. Exits with code 1 if one failed, 2 without a name.
 */
const campaigns: readonly Campaign[] = [
  killCampaign,
  backupCampaign,
  replicasCampaign,
  sessionsCampaign,
  suspendedCampaign,
  modelCampaign,
  fuzzCampaign,
  pipelineCampaign,
  propertiesCampaign,
  evaluatorsCampaign,
  hostileMessagesCampaign,
  descriptorsCampaign,
  stallsCampaign,
  hiddenCampaign,
  urisCampaign,
  loginCampaign,
  sdksCampaign,
  modelsCampaign,
  consoleCampaign,
  sizingCampaign,
];

const ROOT = new URL('../../', import.meta.url);
const REPORT = 'docs/campaign.md';
const HEAD = `# Campaigns

Run long randomized, load and crash tests: one with \`npm run campaign -- kill\`, all with \`npm run campaign -- all\`. Each
campaign replaces its section with the results of its latest run.
`;

const { values, positionals } = parseArgs({ allowPositionals: true, options: { rounds: { type: 'string' } } });
const names = campaigns.map(({ name }) => name);
const isKnown = positionals.length > 0 && positionals.every((name) => name === 'all' || names.includes(name));
const rounds = values.rounds === undefined ? undefined : Number(values.rounds);
if (!isKnown || (rounds !== undefined && !(Number.isSafeInteger(rounds) && rounds > 0))) {
  console.error(`usage: npm run campaign -- [--rounds N] NAME...\nnames: all, ${names.join(', ')}`);
  process.exit(2);
}

for (const { name, title, page, run } of campaigns) {
  if (!positionals.includes('all') && !positionals.includes(name)) continue;
  console.log(title);
  const { passed, report } = await run((line) => console.log(line), rounds);
  console.log(`\n${report}`);
  if (!passed) process.exitCode = 1;
  const cores = cpus();
  const environment = `Node ${process.versions.node}, ${process.platform}, ${cores.length} × ${cores[0]?.model.trim() || 'CPU'}`;
  const heading = page === undefined ? `## ${title}\n\n` : '';
  const block = `${heading}${new Date().toISOString().slice(0, 10)}, ${environment}\n\n${report.trim()}`;
  await writeReport(name, block, new URL(page ?? REPORT, ROOT));
}

/** Replaces the campaign's block, or appends it. */
async function writeReport(name: string, block: string, page: URL): Promise<void> {
  const before = await readFile(page, 'utf8').catch(() => HEAD);
  const [open, close] = [`<!-- ${name} -->`, `<!-- /${name} -->`];
  const [from, to] = [before.indexOf(open), before.indexOf(close)];
  const section = `${open}\n${block}\n${close}`;
  const after =
    from === -1 || to < from
      ? `${before.trimEnd()}\n\n${section}\n`
      : `${before.slice(0, from)}${section}${before.slice(to + close.length)}`;
  await writeFile(page, after);
}
