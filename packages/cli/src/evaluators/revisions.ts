import { unwrap } from '@sluice/contract/client';
import { Command } from 'commander';
import type { Context } from '../context.ts';
import { type ExpectedRevisionOption, expectedRevisionOption, parseWholeNumber } from './expected-revision.ts';
import { printLoadResult } from './loaded.ts';

/** `sluice evaluators revisions` (decisions 1.8). */
export function revisionsCommand(context: Context): Command {
  return new Command('revisions')
    .description('Manage evaluator revisions')
    .addCommand(listCommand(context))
    .addCommand(showCommand(context))
    .addCommand(activateCommand(context));
}

function listCommand(context: Context): Command {
  return new Command('list').description('List evaluator revisions, newest first').action(async () => {
    const client = await context.connect();
    context.output().list(
      await unwrap(client.GET('/api/v1/evaluators/revisions')),
      [
        { title: 'REVISION', value: ({ id }) => JSON.stringify(id) },
        { title: 'STATUS', value: ({ status }) => status },
        { title: 'CREATED', value: (revision) => revision.created_at },
        { title: 'ACTIVATED', value: ({ activated_at = '-' }) => activated_at },
        { title: 'ORIGIN', value: ({ origin }) => origin },
        { title: 'BY', value: ({ actor = '-' }) => actor },
        { title: 'CHECKSUM', value: ({ checksum }) => checksum },
        { title: 'REJECTED BECAUSE', value: ({ failure_reason = '-' }) => failure_reason, cut: 'first' },
      ],
      'no revisions',
    );
  });
}

function showCommand(context: Context): Command {
  return new Command('show')
    .description('Show a revision and its evaluators')
    .argument('<revision>', 'Revision number, or "active"', (text) =>
      text === 'active' ? text : parseWholeNumber(text, 1, ' Or active.'),
    )
    .action(async (id: 'active' | number) => {
      const client = await context.connect();
      const found =
        id === 'active'
          ? client.GET('/api/v1/evaluators/revisions/active')
          : client.GET('/api/v1/evaluators/revisions/{id}', { params: { path: { id } } });
      context.output().show(await unwrap(found));
    });
}

function activateCommand(context: Context): Command {
  return new Command('activate')
    .description('Activate the evaluators of a revision, as a new revision')
    .argument('<revision>', 'Revision number', (text) => parseWholeNumber(text, 1))
    .addOption(expectedRevisionOption())
    .action(async (id: number, { expectedRevision }: ExpectedRevisionOption) => {
      const client = await context.connect();
      const call = client.POST('/api/v1/evaluators/revisions/{id}/activate', {
        params: { path: { id } },
        body: { ...(expectedRevision !== undefined && { expected_revision: expectedRevision }) },
      });
      const active = await unwrap(call);
      const { data, response } = await call;
      printLoadResult(context, { active, warnings: data?.warnings, response });
    });
}
