import { basename } from 'node:path';
import { findCommand } from '../../packages/cli/src/command-words.ts';
import {
  type Command,
  createUnusedProgram,
  type MetricNames,
  productMetrics,
  productPorts,
  productVariables,
} from './product-names.ts';

/** Finds names in files for operators that the product does not have. */
export interface NameChecker {
  /** Returns the unknown environment variables, flags, ports and metrics, each as `line: name`. */
  unknown(path: string, text: string, siblings?: string): string[];
}

/** Variables of the product, and of programs that are configured beside it. */
const VARIABLE = /(?<![\w-])(?:SERVICE|SLUICE|OTEL|NODE|RUST_LOG|OAUTH2_PROXY|KC)(?:_[A-Z0-9]+)*_?(?![\w-])/g;
/** Secrets have any name with this prefix; prose names it. */
const PREFIXES = /^(?:SERVICE_SECRET_|OTEL_$|OAUTH2_PROXY_$|KC_$|SERVICE_$|SLUICE_$|NODE_$)/;
/** Ports of other programs that stand beside the product. */
const OTHER_PORTS = new Map([
  [80, 'HTTP'],
  [443, 'HTTPS'],
  [3000, 'an MCP server in examples'],
  [3001, 'another one'],
  [4317, 'OTLP over gRPC'],
  [4318, 'OTLP over HTTP'],
  [5432, 'PostgreSQL'],
  [8090, 'the listener for other replicas, which has no default'],
  [8443, 'HTTPS without privileges'],
  [9000, 'health checks of Keycloak'],
  [9090, 'Prometheus'],
  [9093, 'Alertmanager'],
]);
const PORT =
  /(?:(?:[\w)\]}]|\$\{[^}]*\}):|(?:\b(?:EXPOSE|(?:container|host|target|node|health)?[Pp]orts?["']?:?|bind|listen)\s+(?:\[|\*:)?))(\d{2,5})\b(?![\w.:-]*[a-z])/g;
/** `sluice:8081`, or the name of a container or service that begins with it. */
const SERVICE_PORT = /\bsluice(?:-(?:mcp|management|inference|headless))?:(\d{2,5})\b/g;
/** Names of metrics and labels in Prometheus. */
const METRIC =
  /(?<![\w./$-])(?:sluice|http_server|mcp_server|mcp_client|rpc_client|gen_ai|process|v8js|nodejs)_[a-z0-9_]+(?![\w-]*[/=]?["']?:\d)/g;
/** Names of metrics in OpenTelemetry's form, in the text of a page. */
const DOTTED_METRIC = /`((?:sluice|mcp|rpc|gen_ai|nodejs|v8js|process)(?:\.[a-z_]+){2,})`/g;
/** Programs and instructions whose flags are not ours, and flags of containers that pages name alone. */
const OTHER_PROGRAMS = new Set(
  (
    'node npm curl wget openssl docker podman buildah compose helm kubectl systemctl systemd-analyze systemd-run journalctl ' +
    'apt-get apt useradd adduser groupadd chown chmod install mkdir promtool prometheus nginx caddy haproxy certbot tar ps ' +
    'debootstrap oauth2-proxy kc.sh start-dev start sh bash printf find rm cp mv ln sed grep awk jq date sysctl ulimit prlimit ' +
    '--ulimit --pids-limit --stop-timeout --build-arg --format timedatectl ss getent git COPY FROM RUN ADD HEALTHCHECK pg_dump psql tini env corepack kustomize k6 wrk strip'
  ).split(' '),
);

/** Creates the checker from the settings, the command line and the metrics of the product. */
export async function createNameChecker(): Promise<NameChecker> {
  const variables = await productVariables();
  const ports = await productPorts();
  const metrics = await productMetrics();
  const program = await createUnusedProgram();
  // Categories of failures look like variables.
  const choices = allOptions(program).flatMap(({ argChoices = [] }) => argChoices);
  const flags = new Set([
    ...process.allowedNodeEnvironmentFlags,
    ...allOptions(program).flatMap(({ long }) => long ?? []),
  ]);
  return {
    unknown(path, text, siblings = '') {
      const isPage = path.endsWith('.md');
      const found: string[] = [];
      const check = (pattern: RegExp, isKnown: (name: string) => boolean): void => {
        for (const match of text.matchAll(pattern)) {
          const name = match[1] ?? match[0];
          if (!isKnown(name)) found.push(`${lineOf(text, match.index)}: ${name}`);
        }
      };
      check(VARIABLE, (name) => {
        if (variables.has(name) || choices.includes(name) || PREFIXES.test(name)) return true;
        // The settings of the proxies and the identity provider are those of deploy/login, which the login is tested with.
        return /^(?:OAUTH2_PROXY|KC)_/.test(name) ? siblings.includes(name) : isLocal(name, `${text}\n${siblings}`);
      });
      check(PORT, (name) => ports.all.has(Number(name)) || OTHER_PORTS.has(Number(name)) || isNoPort(name));
      check(SERVICE_PORT, (name) => ports.service.has(Number(name)));
      check(METRIC, (name) => isMetric(name, metrics));
      if (isPage) check(DOTTED_METRIC, (name) => metrics.openTelemetry.has(name));
      const code = isPage ? codeOf(text) : text.split('\n');
      found.push(...unknownFlags(code, program, flags));
      return found;
    },
  };
}

function lineOf(text: string, index: number): number {
  return text.slice(0, index).split('\n').length;
}

/** Times, versions and ids of users, such as `12:30`, `:26.7` and `10001:10001`. */
function isNoPort(name: string): boolean {
  return Number(name) < 80 || Number(name) === 10_001;
}

function isMetric(name: string, { series, labels }: MetricNames): boolean {
  return series.has(name) || labels.has(name) || labels.has(name.replace(/^_+/, ''));
}

/** Whether a file of the deployment defines a variable of its own for a shell, a build, a substitution or a secret of Compose. */
function isLocal(name: string, text: string): boolean {
  const isUsed = new RegExp(`(?:\\$\\{?|^ +environment: )${name}\\b`, 'm').test(text);
  return isUsed && new RegExp(`(?:^|\\bARG |\\bexport )${name}=|\\$\\{${name}:?[-?]`, 'm').test(text);
}

/** Lines of a page with nothing but its code. */
function codeOf(page: string): string[] {
  let isFenced = false;
  return page.split('\n').map((line) => {
    if (line.startsWith('```')) isFenced = !isFenced;
    else if (isFenced || line.startsWith('    ')) return line;
    return [...line.matchAll(/`([^`]+)`/g)].map(([, code]) => code).join(' ; ');
  });
}

function allOptions(command: Command): Command['options'][number][] {
  const own = [...command.options, ...command.createHelp().visibleOptions(command)];
  return [...own, ...command.commands.flatMap(allOptions)];
}

/** Unknown flags: of the command that precedes them, or, where no program does, of all commands. */
function unknownFlags(lines: readonly string[], program: Command, flags: ReadonlySet<string>): string[] {
  const found: string[] = [];
  let command: Command | undefined;
  let isOther = false;
  for (const [index, line] of lines.entries()) {
    const continues = lines[index - 1]?.trimEnd().endsWith('\\') ?? false;
    if (!continues) {
      command = undefined;
      isOther = false;
    }
    if (/^\s*(?:#|\/\/)/.test(line)) continue;
    // Arrays of words are commands too: ["sluice", "serve"].
    const words = line.replaceAll(/[",'[\]()`]/g, ' ').split(/\s+|(?<=[|;&])|(?=[|;&])/);
    for (const [at, word] of words.entries()) {
      const name = basename(word);
      if (/^[|;&]$/.test(word)) {
        command = undefined;
        isOther = false;
      } else if (/^sluice(?:\.mjs)?$/.test(name) && command === undefined) {
        const next = words.slice(at + 1).find((each) => each !== '' && !each.startsWith('-')) ?? '';
        // The name may also be an argument of another program: docker run --name sluice --read-only.
        const runs = findCommand(program, next) !== undefined || (!isOther && words[at + 1]?.startsWith('--') === true);
        if (runs || name === 'sluice.mjs') [command, isOther] = [program, false];
      } else if (OTHER_PROGRAMS.has(name) && command === undefined) {
        isOther = true;
      } else if (/^--[a-z]/.test(word)) {
        const [flag = ''] = word.split(/[=:{]/);
        if (OTHER_PROGRAMS.has(flag)) continue;
        const isKnown = command
          ? hasFlag(command, flag)
          : isOther || flags.has(flag) || /[^a-z0-9-]/.test(flag.slice(2));
        if (!isKnown) found.push(`${index + 1}: ${flag}`);
      } else if (command) {
        command = findCommand(command, word) ?? command;
      }
    }
  }
  return found;
}

function hasFlag(command: Command, flag: string): boolean {
  if (flag === '--help' || command.options.some(({ long }) => long === flag)) return true;
  return command.parent !== null && hasFlag(command.parent, flag);
}
