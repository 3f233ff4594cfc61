import type { FieldSchema } from './form.ts';

/** Something that can be chosen: what is sent, and what people see. */
export interface Choice {
  readonly value: string;
  readonly title: string;
}

/** What a field lets people choose from, in all the ways in which a schema can say so; none when it takes any text. */
export function fieldChoices(field: FieldSchema): readonly Choice[] {
  const schema = field.type === 'array' ? field.items : field;
  if ('oneOf' in schema) return titled(schema.oneOf);
  if ('anyOf' in schema) return titled(schema.anyOf);
  if (!('enum' in schema)) return [];
  const names = 'enumNames' in schema && Array.isArray(schema.enumNames) ? schema.enumNames.map(String) : [];
  return schema.enum.map((value, at) => ({ value, title: names[at] ?? value }));
}

function titled(options: readonly { readonly const: string; readonly title: string }[]): readonly Choice[] {
  return options.map(({ const: value, title }) => ({ value, title }));
}
