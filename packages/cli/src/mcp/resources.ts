import type { Context } from '../context.ts';
import { Failure } from '../failure.ts';
import { formatContents } from './content.ts';
import { createSaver } from './saver.ts';
import { withSession } from './session.ts';
import type { TargetOptions } from './target.ts';

/** Options of `sluice mcp resource`. */
export interface ResourceOptions extends TargetOptions {
  readonly resourceUri?: string;
  readonly save?: string;
}

/** Reads a resource and prints what it holds. */
export async function readResource(context: Context, options: ResourceOptions): Promise<void> {
  const { resourceUri: uri } = options;
  if (uri === undefined)
    throw new Failure('which resource? Give --resource-uri, or see them all: sluice mcp resource list');
  const save = createSaver(options.save, context);
  const result = await withSession(context, options, ({ client, request, meta }) =>
    client.readResource({ uri, _meta: meta }, request),
  );
  const output = context.output();
  if (output.format === 'json') return output.json(result);
  const { stdout } = context.terminal;
  for (const contents of result.contents) {
    const text = await formatContents(contents, save);
    stdout.write(text.endsWith('\n') ? text : `${text}\n`);
  }
}

/** Prints the resources that the server offers, and the templates for addresses of further ones. */
export async function listResources(context: Context, options: TargetOptions): Promise<void> {
  const lists = await withSession(context, options, async ({ client, request }) => {
    const { resources } = await client.listResources(undefined, request);
    const { resourceTemplates } = await client.listResourceTemplates(undefined, request);
    return { resources, resourceTemplates };
  });
  const output = context.output();
  if (output.format === 'json') return output.json(lists);
  output.list(
    [
      ...lists.resources.map((resource) => ({ ...resource, kind: 'resource' })),
      ...lists.resourceTemplates.map((template) => ({ ...template, uri: template.uriTemplate, kind: 'template' })),
    ],
    [
      { title: 'URI', value: ({ uri }) => uri },
      { title: 'KIND', value: ({ kind }) => kind },
      { title: 'TYPE', value: ({ mimeType }) => mimeType ?? '' },
      { title: 'NAME', value: ({ name }) => name, cut: 'never' },
      { title: 'DESCRIPTION', value: ({ title, description }) => description ?? title ?? '', cut: 'first' },
    ],
    'no resources',
  );
}
