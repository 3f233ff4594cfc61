import { useEffect, useState } from 'react';
import { ChoiceField } from '../../ui/fields.tsx';
import type { FormValue } from '../../ui/form-value.ts';

/** An argument of a prompt, or a variable of a URI template: a text. */
export interface Parameter {
  readonly name: string;
  readonly description?: string;
  readonly required: boolean;
}

/** Returns values of an argument that continue what is typed; `others` are the values of the other arguments. */
export type Complete = (
  argument: { readonly name: string; readonly value: string },
  others: Readonly<Record<string, string>>,
  signal: AbortSignal,
) => Promise<readonly string[]>;

/** Delay until completions are requested after an input, in milliseconds. */
const TYPING_MS = 200;

interface ArgumentFieldsProps {
  readonly parameters: readonly Parameter[];
  readonly value: FormValue;
  readonly onChange: (value: FormValue) => void;
  readonly complete: Complete;
}

/** Inputs for texts with the completions that the upstream offers. */
export function ArgumentFields({ parameters, value, onChange, complete }: ArgumentFieldsProps) {
  return (
    <div className="form-row">
      {parameters.map((parameter) => (
        <ArgumentField
          key={parameter.name}
          parameter={parameter}
          values={textsOf(value)}
          onChange={(text) => onChange({ ...value, [parameter.name]: text })}
          complete={complete}
        />
      ))}
    </div>
  );
}

interface ArgumentFieldProps {
  readonly parameter: Parameter;
  readonly values: Readonly<Record<string, string>>;
  readonly onChange: (text: string) => void;
  readonly complete: Complete;
}

function ArgumentField({ parameter, values, onChange, complete }: ArgumentFieldProps) {
  const { name, description, required } = parameter;
  const [isFocused, setFocused] = useState(false);
  const [items, setItems] = useState<readonly string[]>([]);
  // As a text it is the same until a value changes.
  const typed = JSON.stringify(values);
  useEffect(() => {
    if (!isFocused) return undefined;
    const canceled = new AbortController();
    const timer = setTimeout(async () => {
      const { [name]: value = '', ...others }: Record<string, string> = JSON.parse(typed);
      const found = await complete({ name, value }, others, canceled.signal);
      if (!canceled.signal.aborted) setItems(found);
    }, TYPING_MS);
    return () => {
      clearTimeout(timer);
      canceled.abort();
    };
  }, [isFocused, name, typed, complete]);
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: the events are those of the input in it
    <div onFocus={() => setFocused(true)} onBlur={() => setFocused(false)}>
      <ChoiceField
        id={`argument-${name}`}
        label={required ? name : `${name} (optional)`}
        items={items}
        value={values[name] ?? ''}
        onChange={onChange}
        {...(description !== undefined && { helperText: description })}
      />
    </div>
  );
}

/** Returns the values as texts, without those that are missing or empty. */
export function textsOf(value: FormValue): Record<string, string> {
  const texts = Object.entries(value).map(([name, each]) => [name, String(each ?? '')] as const);
  return Object.fromEntries(texts.filter(([, text]) => text !== ''));
}

const EXPRESSION = /\{[+#./;?&]?([^{}]+)\}/g;

/** Returns the variables of a URI template. Those of queries may be missing. */
export function variablesOf(template: string): Parameter[] {
  return [...template.matchAll(EXPRESSION)].flatMap(([expression, names = '']) =>
    names.split(',').map((name) => ({
      name: name.replace(/\*$|:\d+$/, ''),
      required: !/^\{[?&#]/.test(expression),
    })),
  );
}
