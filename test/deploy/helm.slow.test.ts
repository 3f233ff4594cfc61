import { execFile } from 'node:child_process';
import { cp, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Ajv, type ValidateFunction } from 'ajv';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse, parseAllDocuments, stringify } from 'yaml';
import { parseEnvironment } from '../../packages/server/src/app/config/environment.ts';
import { downloadGoModule, findGo, installGoProgram, installPythonPackage } from '../fixtures/programs.ts';
import { readDeployFile } from '../login/deploy-files.ts';

const run = promisify(execFile);
const CHART = join(import.meta.dirname, '../../deploy/helm/sluice');
const CI = join(CHART, 'ci');
const HELM = 'helm.sh/helm/v3/cmd/helm@v3.22.0';
const KUBERNETES_VALIDATE = 'kubernetes-validate==1.37.0';
const KUBERNETES_VERSIONS = ['1.29', '1.37'];
/** Helm built from its module assumes an old version. */
const KUBE_VERSION = ['--kube-version', '1.37'];
const NAMESPACE = ['--namespace', 'agents'];
/** Where the schemas of other kinds are. */
const CUSTOM_RESOURCES = [
  {
    module: 'sigs.k8s.io/gateway-api@v1.6.3',
    file: 'config/crd/standard/gateway.networking.k8s.io_httproutes.yaml',
  },
  {
    module: 'github.com/prometheus-operator/prometheus-operator@v0.85.0',
    file: 'example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml',
  },
];

interface Resource {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly labels: Record<string, string> };
  // biome-ignore lint/suspicious/noExplicitAny: resources of any kind
  readonly [member: string]: any;
}

if (findGo() === undefined) console.error('skipped: the Helm chart; install Go');

describe.runIf(findGo())('the Helm chart', () => {
  let helm: string;
  let kubernetesValidate: string;
  let folder: string;
  const schemas = new Map<string, ValidateFunction>();

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'sluice-helm-'));
    helm = (await installGoProgram('helm', HELM)) ?? '';
    kubernetesValidate = join(await installPythonPackage(KUBERNETES_VALIDATE), 'kubernetes-validate');
    for (const { module, file } of CUSTOM_RESOURCES) {
      const { spec } = parse(await readFile(join((await downloadGoModule(module)) ?? '', file), 'utf8'));
      for (const { name, schema } of spec.versions) {
        const validate = new Ajv({ strict: false, validateFormats: false }).compile(
          Object(closed(schema.openAPIV3Schema)),
        );
        schemas.set(`${spec.group}/${name} ${spec.names.kind}`, validate);
      }
    }
  }, 1_800_000);
  afterAll(() => rm(folder, { recursive: true }));

  const template = async (...args: string[]): Promise<string> =>
    (await run(helm, ['template', 'example', CHART, ...NAMESPACE, ...KUBE_VERSION, ...args])).stdout;
  const resources = async (...args: string[]): Promise<Resource[]> =>
    parseAllDocuments(await template(...args))
      .map((document) => document.toJS())
      .filter((resource) => resource !== null);
  /** Renders with these values. */
  const withValues = async (values: object): Promise<Resource[]> => {
    const file = join(await mkdtemp(join(folder, 'values-')), 'values.yaml');
    await writeFile(file, stringify(values));
    return resources('-f', file);
  };

  it('passes the strict lint', async () => {
    for (const name of await readdir(CI)) await run(helm, ['lint', '--strict', CHART, '-f', join(CI, name)]);
  });

  it('makes valid resources of each kind of values', { timeout: 600_000 }, async () => {
    const kinds = new Set<string>();
    for (const name of await readdir(CI)) {
      const rendered = await resources('-f', join(CI, name));
      const core: Resource[] = [];
      for (const resource of rendered) {
        kinds.add(resource.kind);
        const validate = schemas.get(`${resource.apiVersion} ${resource.kind}`);
        if (validate === undefined) core.push(resource);
        else expect(validate(resource) || validate.errors, `${name}: ${resource.kind}`).toBe(true);
      }
      const file = join(folder, name);
      await writeFile(file, core.map((resource) => JSON.stringify(resource)).join('\n---\n'));
      for (const version of KUBERNETES_VERSIONS) await run(kubernetesValidate, ['--strict', '-k', version, file]);
      const names = rendered.map(({ kind, metadata }) => `${kind}/${metadata.name}`);
      expect(new Set(names).size, name).toBe(names.length);
    }
    expect([...kinds].sort()).toEqual([
      'ConfigMap',
      'Deployment',
      'HTTPRoute',
      'Ingress',
      'NetworkPolicy',
      'PodDisruptionBudget',
      'Service',
      'ServiceAccount',
      'ServiceMonitor',
      'StatefulSet',
    ]);
  });

  it('meets the restricted profile', async () => {
    const rendered = await resources('-f', join(CI, 'ingress-login-values.yaml'));
    const pods = rendered.filter(({ kind }) => kind === 'StatefulSet' || kind === 'Deployment');
    expect(pods).toHaveLength(3);
    for (const { spec } of pods) {
      const { securityContext, containers } = spec.template.spec;
      expect(securityContext).toMatchObject({ runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } });
      expect(containers).toHaveLength(1);
      for (const container of containers) {
        expect(container.securityContext).toEqual({
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ['ALL'] },
        });
      }
    }
  });

  it('connects Services, routes, monitors and policies with what they name', async () => {
    for (const name of await readdir(CI)) {
      const rendered = await resources('-f', join(CI, name));
      const ofKind = (kind: string) => rendered.filter((resource) => resource.kind === kind);
      const pods = [...ofKind('StatefulSet'), ...ofKind('Deployment')].map(({ spec }) => spec.template);
      const selected = (labels: Record<string, string>, candidates: { metadata: Resource['metadata'] }[]) =>
        candidates.filter(({ metadata }) =>
          Object.entries(labels).every(([label, value]) => metadata.labels[label] === value),
        );
      for (const { spec, metadata } of ofKind('Service')) {
        const [pod, ...others] = selected(spec.selector, pods);
        expect(others, `${name}: ${metadata.name}`).toEqual([]);
        const ports = Object(pod).spec.containers[0].ports.map((port: { name: string }) => port.name);
        for (const { targetPort } of spec.ports) expect(ports, metadata.name).toContain(targetPort);
      }
      const services = new Map(ofKind('Service').map((service) => [service.metadata.name, service]));
      const backends = [
        ...ofKind('Ingress').flatMap(({ spec }) =>
          spec.rules.map(({ http }: Resource) => {
            const { service } = http.paths[0].backend;
            return { name: service.name, port: service.port.number };
          }),
        ),
        ...ofKind('HTTPRoute').flatMap(({ spec }) => spec.rules.flatMap(({ backendRefs }: Resource) => backendRefs)),
      ];
      for (const { name: service, port } of backends) {
        expect(services.get(service)?.spec.ports.map((each: { port: number }) => each.port)).toContain(port);
      }
      for (const { spec } of ofKind('ServiceMonitor')) {
        const [service, ...others] = selected(spec.selector.matchLabels, ofKind('Service'));
        expect(others).toEqual([]);
        expect(Object(service).spec.ports[0].name).toBe(spec.endpoints[0].port);
      }
      for (const { spec } of ofKind('NetworkPolicy')) {
        const ports = spec.ingress.flatMap((rule: Resource) => rule.ports.map(({ port }: { port: string }) => port));
        const [pod] = selected(spec.podSelector.matchLabels, pods);
        const opened = Object(pod).spec.containers[0].ports.map((port: { name: string }) => port.name);
        expect(opened, name).toEqual(expect.arrayContaining(ports));
      }
      for (const { spec } of [...ofKind('NetworkPolicy'), ...ofKind('PodDisruptionBudget')]) {
        const labels = (spec.podSelector ?? spec.selector).matchLabels;
        expect(selected(labels, pods)).toHaveLength(1);
      }
    }
  });

  it('lets agents of its namespace in by default, and only the proxies with a login', async () => {
    const peers = (rendered: Resource[]) => {
      const policy = rendered.find(({ kind }) => kind === 'NetworkPolicy');
      return Object.fromEntries(
        policy?.spec.ingress.map(({ ports, from }: Resource) => [
          ports[0].port,
          from.map((peer: Resource) => peer.podSelector?.matchLabels?.['app.kubernetes.io/component'] ?? 'every pod'),
        ]),
      );
    };
    expect(peers(await withValues({}))).toEqual({ mcp: ['every pod'], inference: ['every pod'] });
    expect(peers(await withValues(WITH_LOGIN))).toEqual({ mcp: ['login-mcp'], management: ['login-management'] });
  });

  it('has the settings of deploy/login', async () => {
    const rendered = await withValues(WITH_LOGIN);
    const dataOf = (name: string) =>
      rendered.find(({ kind, metadata }) => kind === 'ConfigMap' && metadata.name === name)?.data;
    const both = await readDeployFile('proxy.env');
    for (const listener of ['mcp', 'management'] as const) {
      const settings = { ...both, ...(await readDeployFile(`proxy-${listener}.env`)) };
      const host = WITH_LOGIN.hosts[listener];
      expect(dataOf(`example-sluice-login-${listener}`)).toEqual({
        ...Object.fromEntries(Object.entries(settings).filter(([name]) => !DISCOVERED.has(name))),
        OAUTH2_PROXY_OIDC_ISSUER_URL: WITH_LOGIN.login.issuerUrl,
        OAUTH2_PROXY_REDIRECT_URL: `https://${host}/oauth2/callback`,
        OAUTH2_PROXY_UPSTREAMS:
          listener === 'mcp' ? 'http://example-sluice:8081' : 'http://example-sluice-management:8080',
        OAUTH2_PROXY_COOKIE_SECURE: 'true',
      });
    }
    const { SERVICE_AUTH_UPSTREAM_ISSUER: _, ...sluice } = await readDeployFile('sluice.env');
    expect(dataOf('example-sluice-settings')).toEqual({
      ...sluice,
      SERVICE_AUTH_ISSUER: WITH_LOGIN.login.issuerUrl,
      SERVICE_ALLOWED_HOSTS: expect.stringMatching(/^agents\.example\.com,sluice\.example\.com,example-sluice,/),
      SERVICE_PERSIST_BACKEND: 'file',
    });
  });

  it('runs replicas on a database, which reach each other, and evicts them one at a time', async () => {
    const rendered = await resources('-f', join(CI, 'replicas-values.yaml'));
    const ofKind = (kind: string) => rendered.filter((resource) => resource.kind === kind);
    expect(ofKind('StatefulSet')).toEqual([]);
    const [deployment] = ofKind('Deployment');
    const { containers, volumes } = deployment?.spec.template.spec ?? {};
    expect(deployment?.spec.replicas).toBe(3);
    expect(volumes).toContainEqual({ name: 'database', secret: { secretName: 'database-password' } });
    expect(volumes).not.toContainEqual(expect.objectContaining({ name: 'registry' }));
    const [{ env, ports, startupProbe, readinessProbe }] = containers;
    const given = env.map(({ name, value, valueFrom }: Resource) => [
      name,
      value ?? valueFrom.secretKeyRef?.name ?? valueFrom.fieldRef.fieldPath,
    ]);
    expect(Object.fromEntries(given)).toEqual({
      SERVICE_SESSION_KEY: 'session-key',
      SERVICE_POSTGRES_URL: 'database',
      SERVICE_POSTGRES_LISTEN_URL: 'database',
      POD_IP: 'status.podIP',
      SERVICE_PEER_ADVERTISE: '$(POD_IP):8090',
    });
    expect(ports).toContainEqual({ name: 'peer', containerPort: 8090 });
    // One that waits for its database is not ready, but is not restarted.
    expect(startupProbe.httpGet.path).toBe('/healthz');
    expect(readinessProbe.httpGet.path).toBe('/readyz');
    const settings = ofKind('ConfigMap').find(({ metadata }) => metadata.name === 'example-sluice-settings')?.data;
    expect(settings).toEqual({
      SERVICE_PERSIST_BACKEND: 'postgres',
      SERVICE_PEER_LISTEN: '0.0.0.0:8090',
      SERVICE_POSTGRES_PASSWORD_FILE: '/etc/service/database/password',
    });
    // The service accepts them, as Kubernetes passes them.
    const url = 'postgres://sluice@postgres/sluice';
    const passed = { ...settings, SERVICE_SESSION_KEY: '5c'.repeat(32), SERVICE_POSTGRES_URL: url };
    expect(() => parseEnvironment({ ...passed, SERVICE_PEER_ADVERTISE: '10.1.2.3:8090' })).not.toThrow();
    expect(ofKind('PodDisruptionBudget')[0]?.spec.maxUnavailable).toBe(1);
    const { podSelector, ingress, egress } = ofKind('NetworkPolicy')[0]?.spec ?? {};
    const port = { port: 'peer', protocol: 'TCP' };
    expect(ingress).toContainEqual({ ports: [port], from: [{ podSelector }] });
    expect(egress).toContainEqual({ ports: [port], to: [{ podSelector }] });
  });

  it('names addresses of IPv6 in brackets', async () => {
    const rendered = await withValues({ ...WITH_DATABASE, database: { existingSecret: 'database', ipv6: true } });
    const text = JSON.stringify(rendered);
    expect(text).toContain('"[$(POD_IP)]:8090"');
    expect(text).toContain('"[::]:8090"');
  });

  it('restarts Sluice when its configuration changes', async () => {
    const checksum = async (values: object) =>
      (await withValues(values)).find(({ kind }) => kind === 'StatefulSet')?.spec.template.metadata.annotations;
    const before = await checksum({});
    expect(await checksum({})).toEqual(before);
    expect(await checksum({ settings: { RUST_LOG: 'debug' } })).not.toEqual(before);
    expect(await checksum({ serviceConfig: { namespaces: ['a'] } })).not.toEqual(before);
  });

  it.each<[string, object, RegExp]>([
    ['an unknown value', { replicaCount: 2 }, /replicaCount/],
    ['several replicas without a database', { replicas: 2 }, /database\.existingSecret/],
    ['a database without a session key', { database: { existingSecret: 'a' } }, /secrets\.sessionKey/],
    ['a password of no database', { database: { passwordSecret: 'a' } }, /passwordSecret/],
    ['a claim beside a database', { ...WITH_DATABASE, persistence: { existingClaim: 'a' } }, /existingClaim/],
    ['a database in the settings', { settings: { SERVICE_POSTGRES_URL: 'postgres://a/b' } }, /SERVICE_POSTGRES_URL/],
    ['an unknown login', { login: { mode: 'password' } }, /mode/],
    ['exposure without a login', { ...EXPOSED, login: { mode: 'none' } }, /login\.mode: none would expose/],
    ['exposure without names', { ingress: { enabled: true }, login: { mode: 'external' } }, /hosts\.mcp/],
    ['one name for both', { ...EXPOSED, hosts: { mcp: 'a.example.com', management: 'a.example.com' } }, /two names/],
    ['two kinds of exposure', { ...EXPOSED, httpRoute: { enabled: true, parentRefs: [{ name: 'a' }] } }, /one of them/],
    ['a route without a gateway', { ...EXPOSED, ingress: {}, httpRoute: { enabled: true } }, /parentRefs/],
    ['a login without an issuer', { ...EXPOSED, login: { mode: 'oauth2-proxy' } }, /login\.issuerUrl/],
    ['a claim that is not used', { persistence: { enabled: false, existingClaim: 'a' } }, /existingClaim/],
    ['a monitor that is locked out', { serviceMonitor: { enabled: true } }, /managementFrom/],
    ['too little time for the drain', { terminationGracePeriodSeconds: 30 }, /at least 45/],
    ['less time than the pipeline file', { pipelineConfig: { shutdown_timeout_secs: 60 } }, /at least 75/],
    ['a secret in the values', { settings: { SERVICE_SECRET_CRM: 'a' } }, /SERVICE_SECRET_CRM/],
    ['the session key in the values', { settings: { SERVICE_SESSION_KEY: 'a' } }, /SERVICE_SESSION_KEY/],
    ['an address of a listener', { settings: { SERVICE_MCP_LISTEN: '0.0.0.0:1' } }, /SERVICE_MCP_LISTEN/],
    ['a client secret in the values', { login: { settings: { OAUTH2_PROXY_CLIENT_SECRET: 'a' } } }, /CLIENT_SECRET/],
    ['no size', { persistence: { size: 'large' } }, /size/],
  ])('rejects %s', async (_, values, message) => {
    await expect(withValues(values)).rejects.toThrow(message);
  });

  it('tells the next command', async () => {
    // Only an installation prints them, for which Helm needs a cluster: here they are a resource.
    const chart = join(folder, 'chart');
    await cp(CHART, chart, { recursive: true });
    await rename(join(chart, 'templates/NOTES.txt'), join(chart, 'NOTES.txt'));
    const template = 'kind: Notes\ntext: |\n{{ tpl (.Files.Get "NOTES.txt") . | indent 2 }}\n';
    await writeFile(join(chart, 'templates/notes.yaml'), template);
    const notes = async (name: string): Promise<string> => {
      const args = ['--show-only', 'templates/notes.yaml', ...NAMESPACE, ...KUBE_VERSION, '-f', join(CI, name)];
      return parse((await run(helm, ['template', 'example', chart, ...args])).stdout).text;
    };
    expect(await notes('defaults-values.yaml')).toContain('port-forward statefulset/example-sluice 8080 8081');
    expect(await notes('ingress-login-values.yaml')).toContain('https://agents.example.com/default/mcp');
    expect(await notes('memory-values.yaml')).toContain('lost with the pod');
    const shared = await notes('replicas-values.yaml');
    expect(shared).toContain('port-forward deployment/example-sluice 8080 8081');
    expect(shared).toContain('sluice replicas');
  });
});

const EXPOSED = {
  login: { mode: 'external' },
  hosts: { mcp: 'agents.example.com', management: 'sluice.example.com' },
  ingress: { enabled: true },
};
const WITH_LOGIN = {
  ...EXPOSED,
  login: { mode: 'oauth2-proxy', issuerUrl: 'https://login.example.com/realms/sluice', existingSecret: 'sluice-login' },
};
const WITH_DATABASE = { database: { existingSecret: 'database' }, secrets: { sessionKey: 'session-key' } };
/** In deploy/login these are set because the proxies reach the provider by another name than users do. */
const DISCOVERED = new Set(
  ['SKIP_OIDC_DISCOVERY', 'LOGIN_URL', 'REDEEM_URL', 'OIDC_JWKS_URL', 'PROFILE_URL', 'VALIDATE_URL'].map(
    (name) => `OAUTH2_PROXY_${name}`,
  ),
);

/** The schema with every object closed, as if the cluster rejected unknown members instead of dropping them. */
function closed(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(closed);
  if (typeof schema !== 'object' || schema === null) return schema;
  const members = Object.fromEntries(Object.entries(schema).map(([name, value]) => [name, closed(value)]));
  const isObject = members.type === 'object' && members.properties !== undefined;
  if (!isObject || members['x-kubernetes-preserve-unknown-fields'] || members.additionalProperties) return members;
  return { ...members, additionalProperties: false };
}
