import { fileURLToPath } from 'node:url';
import { NODE_FLAGS } from '@sluice/server/node-flags';
import { Command, Option } from 'commander';
import type { Context } from '../context.ts';
import { Failure } from '../failure.ts';

interface ServeOptions {
  readonly pipelineConfig?: string;
  readonly serviceConfig?: string;
  readonly pluginsPath?: string;
}

/** `sluice serve`: the service itself, in place of this process (decisions 1.1). `npm start` is the same. */
export function serveCommand({ terminal }: Context): Command {
  return (
    new Command('serve')
      .description('Run the service (MCP gateway and management API)')
      .option(
        '--service-config <file>',
        'Forwards and namespaces to register at startup (YAML; default: service.yaml, if it exists)',
      )
      .option('--pipeline-config <file>', 'Pipeline file (YAML; default: the one that "sluice pipeline show" prints)')
      // The service says that it has no effect.
      .addOption(new Option('--plugins-path <folder>').hideHelp())
      .addHelpText(
        'after',
        '\nAll other settings are environment variables, such as SERVICE_MGMT_LISTEN, SERVICE_PERSIST_PATH and RUST_LOG.',
      )
      .action(({ pipelineConfig, serviceConfig, pluginsPath }: ServeOptions) => {
        const args = [
          ...(serviceConfig === undefined ? [] : [`--service-config=${serviceConfig}`]),
          ...(pipelineConfig === undefined ? [] : [`--pipeline-config=${pipelineConfig}`]),
          ...(pluginsPath === undefined ? [] : [`--plugins-path=${pluginsPath}`]),
        ];
        // The process becomes the service: signals, exit code and process id are its own, and nothing of us stays in memory.
        if (!process.execve) throw new Failure('this system cannot put the service in place of the command');
        const node = process.execPath;
        const main = fileURLToPath(import.meta.resolve('@sluice/server/main'));
        process.execve(node, [node, ...NODE_FLAGS, main, ...args], terminal.env);
      })
  );
}
