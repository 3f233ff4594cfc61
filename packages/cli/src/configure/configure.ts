import { Argument, Command, Option } from 'commander';
import type { Context } from '../context.ts';
import { PROGRAMS, type Scope } from './programs.ts';

/** Options of `sluice configure`, as they are given. */
export interface ConfigureOptions {
  readonly namespace: string;
  readonly mcpUrl?: string;
  readonly name?: string;
  readonly scope: Scope;
  readonly file?: string;
  readonly remove?: true;
  readonly dryRun?: true;
  readonly yes?: true;
}

/** `sluice configure PROGRAM`: writes where a namespace is to be found into a client program's own configuration. */
export function configure(context: Context): Command {
  return new Command('configure')
    .description('connect a client program to a namespace: change its MCP configuration, after showing the change')
    .addArgument(new Argument('<program>', 'the client program').choices(PROGRAMS.map(({ name }) => name)))
    .option('-N, --namespace <name>', 'the namespace that it is to see', 'default')
    .option('--mcp-url <url>', 'where the MCP listener is; also SLUICE_MCP_URL; default: --host, with port 8081')
    .option('--name <name>', 'what the program calls the server; default: sluice, or sluice-NAMESPACE')
    .addOption(
      new Option('--scope <scope>', 'for all projects of yours, or for the one in this folder')
        .choices(['user', 'project'])
        .default('user'),
    )
    .addOption(new Option('--file <path>', 'change this file instead of where the program looks'))
    .option('--remove', 'take the server out again')
    .addOption(new Option('--dry-run', 'show the change and leave it at that').conflicts('yes'))
    .option('-y, --yes', 'do not ask')
    .addHelpText(
      'after',
      '\nA --token that is given is written into the configuration; a stored one and SLUICE_TOKEN are not.',
    )
    .action(async (program: string, options: ConfigureOptions) => {
      const { change } = await import('./change.ts');
      await change(context, program, options);
    });
}
