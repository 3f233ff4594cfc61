import { Button } from '@carbon/react';
import Form from '@rjsf/core/lib/components/Form.js';
import CheckboxesWidget from '@rjsf/core/lib/components/widgets/CheckboxesWidget.js';
import SelectWidget from '@rjsf/core/lib/components/widgets/SelectWidget.js';
import TextareaWidget from '@rjsf/core/lib/components/widgets/TextareaWidget.js';
import TextWidget from '@rjsf/core/lib/components/widgets/TextWidget.js';
import {
  type DescriptionFieldProps,
  englishStringTranslator,
  type IconButtonProps,
  TranslatableString,
  type UnsupportedFieldProps,
  type WidgetProps,
} from '@rjsf/utils';
import { useMemo, useState } from 'react';
import { formSchema } from './form-schema.ts';
import { type FormValue, initialValue } from './form-value.ts';
import { InertText, visibleText } from './inert-text.tsx';
import { JsonView } from './json-view.tsx';
import { createValidator, DEFAULTS, type JsonSchema } from './schema-validator.ts';

/** Returns what a {@link SchemaForm} shows, first the defaults of the schema, and its setter. */
export function useFormValue(schema: JsonSchema | undefined): [FormValue, (value: FormValue) => void] {
  return useState<FormValue>(() => (schema ? initialValue(formSchema(schema)) : {}));
}

interface SchemaFormProps {
  readonly schema: JsonSchema;
  /** From {@link useFormValue}. */
  readonly value: FormValue;
  readonly onChange: (value: FormValue) => void;
}

/** A form made from a JSON Schema. Errors are shown while it is filled in; they do not prevent a submission. */
export function SchemaForm({ schema, value, onChange }: SchemaFormProps) {
  const validator = useMemo(() => createValidator<FormValue>(), []);
  const visible = useMemo(() => formSchema(schema), [schema]);
  return (
    <div className="schema-form">
      <Form<FormValue>
        tagName="div"
        schema={visible}
        formData={value}
        validator={validator}
        experimental_defaultFormStateBehavior={DEFAULTS}
        liveValidate
        showErrorList={false}
        uiSchema={{ 'ui:submitButtonOptions': { norender: true } }}
        templates={templates}
        widgets={widgets}
        translateString={translate}
        onChange={({ formData }) => onChange(formData ?? {})}
      />
    </div>
  );
}

/** Boolean values are shown as they are in JSON. */
function translate(text: TranslatableString, params?: string[]): string {
  if (text === TranslatableString.YesLabel) return 'true';
  return text === TranslatableString.NoLabel ? 'false' : englishStringTranslator(text, params);
}

const templates = {
  DescriptionFieldTemplate: Description,
  UnsupportedFieldTemplate: UnsupportedField,
  ButtonTemplates: {
    AddButton: (props: IconButtonProps) => <FormButton {...props} label="Add" />,
    CopyButton: (props: IconButtonProps) => <FormButton {...props} label="Copy" />,
    MoveUpButton: (props: IconButtonProps) => <FormButton {...props} label="Move up" />,
    MoveDownButton: (props: IconButtonProps) => <FormButton {...props} label="Move down" />,
    RemoveButton: (props: IconButtonProps) => <FormButton {...props} label="Remove" />,
    ClearButton: (props: IconButtonProps) => <FormButton {...props} label="Clear" />,
    SubmitButton: () => null,
  },
};

const widgets = {
  SelectWidget: Choice,
  CheckboxesWidget: (props: WidgetProps) => <CheckboxesWidget {...withVisibleLabels(props)} />,
  // A checkbox does not distinguish false from a missing value.
  CheckboxWidget: BooleanChoice,
  TextWidget: Text,
  // An input of this type shows black instead of nothing.
  ColorWidget: Text,
};

function Choice(props: WidgetProps) {
  return (
    <div className="schema-choice">
      <SelectWidget {...withVisibleLabels(props)} />
    </div>
  );
}

function BooleanChoice(props: WidgetProps) {
  const { id, label, required } = props;
  return (
    <>
      <label className="control-label" htmlFor={id}>
        {label}
        {required && <span className="required">*</span>}
      </label>
      <Choice {...props} />
    </>
  );
}

/** The form shows labels as they are; those of values other than texts are their JSON. */
function withVisibleLabels(props: WidgetProps): WidgetProps {
  const { options } = props;
  const enumOptions = options.enumOptions?.map(({ value, label, ...rest }) => ({
    ...rest,
    value,
    label: typeof value === 'object' && label === String(value) ? JSON.stringify(value) : visibleText(label),
  }));
  return { ...props, options: { ...options, ...(enumOptions && { enumOptions }) } };
}

/** A text of several lines would lose them in an input of one. */
function Text(props: WidgetProps) {
  const { schema } = props;
  const hasLines = typeof schema.default === 'string' && /[\r\n]/.test(schema.default);
  return hasLines ? <TextareaWidget {...props} /> : <TextWidget {...props} />;
}

function Description({ id, description }: DescriptionFieldProps) {
  if (typeof description !== 'string' || description === '') return null;
  return (
    <p id={id} className="cds--form__helper-text">
      <InertText text={description} />
    </p>
  );
}

/** Part of a schema that no form can be made of. */
function UnsupportedField({ schema }: UnsupportedFieldProps) {
  return <JsonView value={schema} label="Schema of a field that has no form" />;
}

function FormButton({ id, disabled, onClick, label }: IconButtonProps & { readonly label: string }) {
  return (
    <Button kind="ghost" size="sm" id={id} disabled={disabled === true} onClick={onClick}>
      {label}
    </Button>
  );
}
