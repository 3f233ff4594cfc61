import { Argument, Command, Option } from 'commander';
import type { Context } from '../context.ts';
import type { ConfigureOptions } from './change.ts';
import { PROGRAMS } from './programs.ts';

/** `sluice configure PROGRAM`: adds a namespace to the MCP configuration of a client. */
export function configureCommand(context: Context): Command {
  return new Command('configure')
    .description("Add Sluice to an MCP client's configuration")
    .addArgument(new Argument('<program>', 'MCP client').choices(PROGRAMS.map(({ name }) => name)))
    .option('-N, --namespace <name>', 'Namespace to connect to', 'default')
    .option(
      '--mcp-url <url>',
      'MCP listener URL (env: SLUICE_MCP_URL; default: that of the service, or the port after that of --host)',
    )
    .option('--name <name>', 'Server name in the configuration (default: sluice, or sluice-NAMESPACE)')
    .addOption(
      new Option('--scope <scope>', 'Configuration of the user, or of the project in the current folder')
        .choices(['user', 'project'])
        .default('user'),
    )
    .addOption(new Option('--file <path>', 'Configuration file to change (default: the one of the client)'))
    .option('--remove', 'Remove the server from the configuration')
    .addOption(new Option('--dry-run', 'Print the change without writing it').conflicts('yes'))
    .option('-y, --yes', 'Skip the confirmation prompt; required without a terminal')
    .addHelpText(
      'after',
      '\nThe value of --token is written to the configuration; stored tokens and SLUICE_TOKEN are not.',
    )
    .action(async (program: string, options: ConfigureOptions) => {
      const { changeConfiguration } = await import('./change.ts');
      await changeConfiguration(context, program, options);
    });
}
