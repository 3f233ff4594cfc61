import type { ForwardTest, ForwardTestStep } from '@sluice/contract';
import { FORWARD_TEST_STEPS } from '@sluice/contract';
import { NO_CAPABILITIES } from '@sluice/protocol/mcp/capabilities';
import { counted } from '@sluice/protocol/text';
import type { TimeSlicer } from '@sluice/protocol/time-slicer';
import { withTimeout } from '@sluice/protocol/timing';
import { ConnectionProbe } from '../../../http/client/connection-probe.ts';
import { Egress } from '../../../http/client/egress.ts';
import { displayAddress, UpstreamError } from '../../../http/client/errors.ts';
import { SecretHeaders } from '../../../http/secrets/secret-headers.ts';
import type { Secrets } from '../../../http/secrets/secrets.ts';
import type { TargetLogger } from '../../../telemetry/log.ts';
import { readServerInfo } from '../../server-info.ts';
import type { ForwardTarget } from '../../upstream-kind.ts';
import type { CatalogLimits } from '../catalog/catalog-size.ts';
import { type Catalog, discover } from '../discovery.ts';
import { EraCache, type EraProbe } from '../era-detection.ts';
import { HealthCheck } from '../health-check.ts';
import type { RpcClient, RpcClientOptions } from '../rpc-client.ts';
import { openTransport, secretOrigins, type UpstreamHttp } from '../upstream.ts';
import { ExchangeTrace, textsFor } from './exchange-trace.ts';

/** Parts of the service that a test uses. */
export interface ForwardTestOptions {
  readonly secrets: Secrets;
  readonly log: TargetLogger;
  /** Identity of the gateway towards upstreams. */
  readonly clientInfo: RpcClientOptions['clientInfo'];
  readonly http?: UpstreamHttp | undefined;
  readonly slicer: TimeSlicer;
  readonly limits?: CatalogLimits | undefined;
  /** Milliseconds for each request and connection (default 5000); for tests. */
  readonly stepMs?: number;
}

const STEP_MS = 5_000;
const TOTAL_MS = 30_000;
/** A step ends with the error of its request, unless it has several. */
const MARGIN_MS = 500;
/** Time for closing sessions and connections. */
const CLOSE_MS = 1_000;
/** Certificates that expire earlier are reported. */
const EXPIRY_WARNING_DAYS = 14;
const DAY_MS = 24 * 3_600_000;
/** Names of each list in the result. */
const SHOWN_NAMES = 5;

type StepName = ForwardTestStep['step'];
/** What a step has found; `ok` by default. */
type Found = Partial<Omit<ForwardTestStep, 'step'>>;

/**
 * Tests an upstream step by step, with the code that discovery and calls use, and stops at the first step that fails. Its message
 * is that of a failed discovery. Executes no tool, and closes its sessions.
 */
export async function testForward(target: ForwardTarget, options: ForwardTestOptions): Promise<ForwardTest> {
  const test = new RunningTest(target, options);
  try {
    await test.run();
  } catch (error) {
    // The failed step has it.
    if (!(error instanceof UpstreamError)) throw error;
  } finally {
    await test.close();
  }
  return test.result;
}

/** One test. */
class RunningTest {
  readonly #url: URL;
  readonly #target: ForwardTarget;
  readonly #options: ForwardTestOptions;
  readonly #stepMs: number;
  readonly #address: string;
  readonly #text: (text: string) => string;
  readonly #trace: ExchangeTrace;
  readonly #client: RpcClientOptions;
  readonly #redirects: string[] = [];
  readonly #abort = new AbortController();
  readonly #endsAt = performance.now() + TOTAL_MS;
  readonly #steps: ForwardTestStep[] = [];
  /** Clients with sessions to close. */
  readonly #clients = new Set<RpcClient>();
  #timer: NodeJS.Timeout | undefined = undefined;

  constructor(target: ForwardTarget, options: ForwardTestOptions) {
    const { address, headers, proxy, compression } = target;
    const { secrets, log, http, clientInfo, stepMs = STEP_MS } = options;
    this.#url = new URL(address);
    this.#target = target;
    this.#options = options;
    this.#stepMs = stepMs;
    this.#address = displayAddress(this.#url);
    this.#text = textsFor(this.#url);
    const transport = openTransport(
      address,
      headers && new SecretHeaders(headers, secretOrigins({ address, proxy }), secrets, log),
      { ...http, proxy, compression },
      (status, to) => this.#redirects.push(`HTTP ${status} to ${displayAddress(to)}`),
    );
    this.#trace = new ExchangeTrace(transport);
    this.#client = {
      transport: this.#trace,
      capabilities: NO_CAPABILITIES,
      clientInfo,
      timeoutMs: stepMs,
      signal: this.#abort.signal,
    };
  }

  get result(): ForwardTest {
    const done = new Set(this.#steps.map(({ step }) => step));
    const skipped = FORWARD_TEST_STEPS.filter((step) => !done.has(step)).map((step): ForwardTestStep => {
      return { step, status: 'skipped', duration: 0 };
    });
    const ok = this.#steps.every(({ status }) => status !== 'failed');
    return { address: this.#address, ok, steps: [...this.#steps, ...skipped] };
  }

  async run(): Promise<void> {
    await this.#testConnection();
    const eras = this.#probe();
    await this.#step('http', () => this.#firstResponse(eras));
    await this.#step('era', async () => ({ ...describeEras(await eras), ...this.#exchanged() }));
    const probe = await eras;
    const client = probe.legacy ?? probe.modern;
    if (!client) return;
    await this.#step('session', async () => this.#describeSession(client));
    await this.#step('lists', () => this.#readLists(probe));
    await this.#step('ping', () => this.#ping(client));
  }

  /** Closes sessions and connections; never rejects. */
  async close(): Promise<void> {
    clearTimeout(this.#timer);
    await withTimeout(CLOSE_MS, Promise.all([...this.#clients].map((client) => client.close())));
    this.#abort.abort();
    await withTimeout(CLOSE_MS, this.#trace.close());
    await this.#trace.destroy();
  }

  async #testConnection(): Promise<void> {
    const { http: { egress = new Egress() } = {} } = this.#options;
    const proxy = egress.proxies.for(this.#url, this.#target.proxy);
    const probe = new ConnectionProbe(this.#url, proxy, this.#stepMs);
    await this.#step('resolve', async () => {
      const addresses = await probe.resolve();
      if (!addresses) return { status: 'skipped', message: `${probe.host} is an address` };
      return { sent: `lookup of ${probe.host}`, received: addresses.join(', ') };
    });
    await this.#step('proxy', async () => ({ message: proxy ? proxy.url.origin : 'none' }));
    const connection = await this.#step('connect', async () => {
      const socket = await probe.connect();
      return { received: `connected to ${socket.remoteAddress ?? ''}, port ${socket.remotePort ?? ''}`, socket };
    });
    try {
      await this.#step('tls', async () => {
        if (this.#url.protocol !== 'https:') return { status: 'skipped', message: 'http:// is not encrypted' };
        const secured = await probe.startTls(connection.socket);
        const certificate = secured.getPeerCertificate();
        const found = describeCertificate(secured.getProtocol(), certificate);
        secured.destroy();
        return found;
      });
    } finally {
      connection.socket.destroy();
    }
  }

  /** Probes the eras as the next discovery would: what has broken the connection before is not sent. */
  #probe(): Promise<EraProbe> {
    const { modernProbeAfter, catalogs = [] } = this.#target;
    const cache = new EraCache(this.#client, {
      hasLegacyClients: () => true,
      store: {
        modernProbeAfter,
        setModernProbeAfter: async () => undefined,
        isKnownModern: catalogs.some(({ era }) => era === 'modern'),
      },
    });
    const probing = cache.probe().then((probe) => {
      for (const client of [probe.legacy, probe.modern]) if (client) this.#clients.add(client);
      return probe;
    });
    probing.catch(() => undefined);
    return probing;
  }

  async #firstResponse(eras: Promise<EraProbe>): Promise<Found> {
    const find = () => this.#trace.exchanges.find(({ received }) => received !== undefined);
    await Promise.race([this.#trace.firstHead, eras]).catch((error: unknown) => {
      if (!find()) throw error;
    });
    const first = find();
    const { headers = {} } = this.#target;
    const names = Object.keys(headers);
    const sent = `${first?.sent ?? ''}${names.length > 0 ? ` (with the headers ${names.join(', ')})` : ''}`;
    const redirects = this.#redirects.length > 0 ? { message: `redirected: ${this.#redirects.join(', ')}` } : {};
    return { sent, received: first?.received ?? '', ...redirects };
  }

  /** What was sent and received since an exchange. */
  #exchanged(since = 0): Found {
    const exchanges = this.#trace.exchanges.slice(since);
    const received = exchanges.map((exchange) => `${exchange.name}: ${exchange.received ?? 'no response'}`);
    return { sent: exchanges.map(({ name }) => name).join(', '), received: received.join(' | ') };
  }

  #describeSession({ identity, sessionId, era }: RpcClient): Found {
    const server = readServerInfo([{ identity }]);
    const exchanges = this.#trace.of('initialize', 'notifications/initialized', 'server/discover');
    const session = era === 'modern' ? 'no sessions in the modern era' : sessionId ? 'a session id' : 'no session id';
    return {
      duration: exchanges.reduce((sum, { duration }) => Math.max(sum, duration), 0),
      sent: exchanges.map(({ name }) => name).join(', '),
      received: identity,
      message: `${server?.serverName || 'a server without a name'} ${server?.version ?? ''}, ${session}, ${
        server && server.capabilities.length > 0 ? server.capabilities.join(', ') : 'no capabilities'
      }`,
    };
  }

  async #readLists({ legacy, modern }: EraProbe): Promise<Found> {
    const { slicer, limits } = this.#options;
    const before = this.#trace.exchanges.length;
    const catalogs: Catalog[] = [];
    for (const client of [legacy, modern]) {
      if (!client) continue;
      this.#clients.delete(client);
      catalogs.push(await discover({ ...this.#client, slicer, ...(limits && { limits }) }, client.era, client));
    }
    const requests = this.#trace.exchanges.slice(before).filter(({ method }) => method.endsWith('/list'));
    const notes = [...new Set(catalogs.flatMap((catalog) => catalog.notes))];
    const counts = catalogs.map((catalog) => `${catalog.era}: ${countsOf(catalog)}`);
    return {
      status: notes.length > 0 ? 'warning' : 'ok',
      sent: [...new Set(requests.map(({ method }) => method))].join(', '),
      received: catalogs[0] ? namesOf(catalogs[0]) : '',
      message: [...counts, `${requests.length} pages`, ...notes].join('; '),
    };
  }

  async #ping({ era }: RpcClient): Promise<Found> {
    const check = new HealthCheck(this.#client);
    const before = this.#trace.exchanges.length;
    try {
      await check.run(era);
    } finally {
      await withTimeout(CLOSE_MS, check.close());
    }
    const ping = this.#trace.exchanges.slice(before).find(({ method }) => method === 'ping' || era === 'modern');
    return { sent: ping?.sent ?? '', received: ping?.received ?? '' };
  }

  /** Runs one step and records its result; returns what it has found. */
  async #step<F extends Found>(step: StepName, work: () => Promise<F>): Promise<F> {
    const startedAt = performance.now();
    const since = this.#trace.exchanges.length;
    this.#startTimer(step, startedAt);
    try {
      const found = await work();
      this.#add(step, { status: 'ok', duration: performance.now() - startedAt, ...found });
      return found;
    } catch (error) {
      if (error instanceof UpstreamError) {
        const last =
          SENT[step] === undefined
            ? this.#exchanged(step === 'http' || step === 'era' ? 0 : since)
            : { sent: SENT[step] };
        const { message, remedy } = error;
        this.#add(step, { ...last, status: 'failed', duration: performance.now() - startedAt, message, remedy });
      }
      throw error;
    }
  }

  #add(step: StepName, { status = 'ok', duration = 0, sent, received, message, remedy }: Found): void {
    const text = (name: string, value: string | undefined, shorten = this.#text) =>
      value === undefined || value === '' ? {} : { [name]: shorten(value) };
    this.#steps.push({
      step,
      status,
      duration: Math.round(duration * 10) / 10,
      ...text('sent', sent),
      ...text('received', received),
      ...text('message', message, (whole) => whole),
      ...text('remedy', remedy, (whole) => whole),
    });
  }

  #startTimer(step: StepName, now: number): void {
    clearTimeout(this.#timer);
    const ms = Math.min(this.#stepMs + MARGIN_MS, Math.max(this.#endsAt - now, 0));
    this.#timer = setTimeout(() => {
      const what = `did not finish the step ${step} of the test within ${Math.round(ms / 1000)} s`;
      this.#abort.abort(new UpstreamError('timeout', this.#address, what, { remedy: 'see the log of the upstream' }));
    }, ms);
  }
}

/** What the steps before the first request send. */
const SENT: Partial<Record<StepName, string>> = {
  resolve: 'a lookup of the host name',
  connect: 'a TCP connection',
  tls: 'a TLS handshake',
};

function describeEras({ legacy, modern, legacyProbed, inconclusive }: EraProbe): Found {
  const missing = legacyProbed ? 'not supported' : 'not probed';
  const message = `legacy: ${legacy?.protocolVersion ?? missing}; modern: ${modern?.protocolVersion ?? 'not supported'}`;
  const [first] = inconclusive;
  if (!first) return { message };
  const { era, error } = first;
  return {
    status: 'warning',
    message: `${message}; the ${era} era is not known: ${error.message}`,
    remedy: error.remedy,
  };
}

function describeCertificate(
  protocol: string | null,
  { subject, issuer, valid_to }: ReturnType<import('node:tls').TLSSocket['getPeerCertificate']>,
): Found {
  const days = Math.floor((Date.parse(valid_to) - Date.now()) / DAY_MS);
  const isSoon = days < EXPIRY_WARNING_DAYS;
  return {
    status: isSoon ? 'warning' : 'ok',
    received: `${protocol}, certificate of ${nameOf(subject)}, issued by ${nameOf(issuer)}, valid for ${days} days`,
    ...(isSoon && {
      message: `the certificate expires in ${days} days`,
      remedy: 'renew the certificate of the upstream',
    }),
  };
}

function nameOf(name: object): string {
  const { CN, O = 'unknown' }: { CN?: unknown; O?: unknown } = name;
  return String(CN ?? O);
}

const LISTS = ['tools', 'resources', 'templates', 'prompts'] as const;

function countsOf(catalog: Catalog): string {
  return LISTS.map((list) => counted(catalog[list].length, list.slice(0, -1))).join(', ');
}

function namesOf(catalog: Catalog): string {
  const lists = LISTS.flatMap((list) => {
    const names = catalog[list].slice(0, SHOWN_NAMES).map(({ key }) => key);
    const more = catalog[list].length > SHOWN_NAMES ? ', …' : '';
    return names.length === 0 ? [] : [`${list}: ${names.join(', ')}${more}`];
  });
  return lists.join('; ');
}
