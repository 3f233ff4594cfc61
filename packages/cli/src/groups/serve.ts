import { fileURLToPath } from 'node:url';
import { nodeFlags } from '@sluice/server/node-flags';
import { Command, Option } from 'commander';
import type { Context } from '../context.ts';
import { Failure } from '../failure.ts';

interface ServeOptions {
  readonly pipelineConfig?: string;
  readonly serviceConfig?: string;
  readonly pluginsPath?: string;
  readonly port?: string;
  readonly logFormat?: string;
  readonly local?: true;
  readonly headless?: true;
}

/** `sluice serve`: replaces this process by the service, like `npm start`. */
export function serveCommand({ terminal }: Context): Command {
  return (
    new Command('serve')
      .description('Run the service (MCP gateway and management API)')
      .option(
        '--service-config <file>',
        'Forwards and namespaces to register at startup (YAML; default: service.yaml, if it exists)',
      )
      .option('--pipeline-config <file>', 'Pipeline file (YAML; default: the one that "sluice pipeline show" prints)')
      .option(
        '--port <port>',
        'Port of the management API and console (default: 8080); without --pipeline-config, MCP uses the next port and inference the third one after it',
      )
      .option(
        '--log-format <format>',
        'text or json (env: SERVICE_LOG_FORMAT; default: text on a terminal, otherwise json)',
      )
      .option('--local', 'Bind to 127.0.0.1 instead of all interfaces (env: SERVICE_LOCAL=1)')
      .option('--headless', 'Serve no web console (env: SERVICE_UI_PATH=none)')
      // The service warns that it has no effect.
      .addOption(new Option('--plugins-path <folder>', 'Folder of plugins of the web console'))
      .addHelpText(
        'after',
        '\nAll other settings are environment variables, such as SERVICE_MGMT_LISTEN, SERVICE_PERSIST_PATH and RUST_LOG.',
      )
      .action(
        (
          { pipelineConfig, serviceConfig, pluginsPath, port, logFormat, local, headless }: ServeOptions,
          command: Command,
        ) => {
          const args = [
            // The service rejects them. Without their values, which may be secret.
            ...clientOptions(command),
            ...(port === undefined ? [] : [`--port=${port}`]),
            ...(logFormat === undefined ? [] : [`--log-format=${logFormat}`]),
            ...(local ? ['--local'] : []),
            ...(headless ? ['--headless'] : []),
            ...(serviceConfig === undefined ? [] : [`--service-config=${serviceConfig}`]),
            ...(pipelineConfig === undefined ? [] : [`--pipeline-config=${pipelineConfig}`]),
            ...(pluginsPath === undefined ? [] : [`--plugins-path=${pluginsPath}`]),
          ];
          // The process becomes the service, with its own signals, exit code and process id, and without the memory of
          // the CLI.
          if (!process.execve) throw new Failure('sluice serve is not supported on this system: run npm start');
          const node = process.execPath;
          const main = fileURLToPath(import.meta.resolve('@sluice/server/main'));
          process.execve(node, [node, ...nodeFlags(terminal.env), main, ...args], terminal.env);
        },
      )
  );
}

/** The options of the other commands that were given. */
function clientOptions({ parent }: Command): string[] {
  return (parent?.options ?? [])
    .filter((option) => parent?.getOptionValueSource(option.attributeName()) === 'cli')
    .map((option) => option.long ?? option.flags);
}
