import type { Gateway, GatewayStart } from './gateway.ts';
import { startGateway } from './gateway.ts';
import type { Options, Plan } from './options.ts';
import { connectUpstreams, type Upstreams } from './targets.ts';

/** What all measurements need. */
export interface Bench {
  readonly options: Options;
  readonly plan: Plan;
  /** Folder for the files of the run. */
  readonly folder: string;
  /** Called after every measurement. */
  readonly log: (line: string) => void;
  readonly upstreams: Upstreams;
}

/** Starts a gateway with a registry folder and an output file of this name. */
export function startNamed(
  { options, folder }: Bench,
  name: string,
  start: Partial<GatewayStart> = {},
): Promise<Gateway> {
  const { entry, nodeFlags, log } = options;
  const files = { registryFolder: `${folder}/registry-${name}`, outputFile: `${folder}/${name}.log` };
  return startGateway({ entry, nodeFlags, log, ...files, ...start });
}

/** Starts a gateway in front of the upstreams. */
export async function startConnected(bench: Bench, name: string, owned: AsyncDisposableStack): Promise<Gateway> {
  const gateway = owned.use(await startNamed(bench, name));
  await connectUpstreams(gateway, bench.upstreams);
  return gateway;
}
