import { TextInput as CarbonTextInput, ComboBox, TextArea } from '@carbon/react';
import type { ComponentProps } from 'react';
import { useNamespaces } from '../api/queries.ts';
import type { TextField } from './form.ts';
import { visibleText } from './inert-text.tsx';

/** Carbon's text input, described by its error: Carbon names that in `aria-errormessage` only, which is not announced. */
export function TextInput(props: ComponentProps<typeof CarbonTextInput>) {
  return <CarbonTextInput {...props} {...(props.invalid && { 'aria-describedby': `${props.id}-error-msg` })} />;
}

interface ChoiceFieldProps {
  readonly id: string;
  readonly label: string;
  /** Suggestions; any other text can be typed. */
  readonly items: readonly string[];
  readonly value: string;
  readonly onChange: (value: string) => void;
  readonly error?: string | undefined;
  readonly helperText?: string;
}

/** Returns the label of a button of a combo box. Carbon's "Close" is the button of dialogs. */
export function comboBoxLabel(id: string): string {
  return LABELS[id] ?? id;
}

const LABELS: Readonly<Record<string, string>> = {
  'open.menu': 'Show the choices',
  'close.menu': 'Hide the choices',
  'clear.selection': 'Clear the choice',
};

/** A text with suggestions. */
export function ChoiceField({ id, label, items, value, onChange, error, helperText }: ChoiceFieldProps) {
  return (
    <ComboBox
      id={id}
      titleText={visibleText(label)}
      items={[...items]}
      allowCustomValue
      translateWithId={comboBoxLabel}
      selectedItem={value}
      onChange={({ selectedItem, inputValue }) => onChange(selectedItem ?? inputValue ?? '')}
      // Typed text counts before the field is left.
      onInputChange={onChange}
      invalid={error !== undefined}
      invalidText={error ?? ''}
      helperText={helperText && visibleText(helperText, 2000)}
    />
  );
}

/** The namespace of something, which is created if it does not exist. */
export function NamespaceField(props: Omit<ChoiceFieldProps, 'label' | 'items' | 'helperText'>) {
  const { data = [] } = useNamespaces();
  return (
    <ChoiceField
      {...props}
      label="Namespace"
      items={data.map(({ name }) => name)}
      helperText="Created if it does not exist"
    />
  );
}

/** Labels, one per line. */
export function LabelsField({ id, field }: { readonly id: string; readonly field: TextField }) {
  return <TextArea id={id} labelText="Labels" helperText="One per line: name=value" rows={3} {...field} />;
}
