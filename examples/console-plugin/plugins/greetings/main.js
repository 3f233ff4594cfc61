// A sample plugin of the web console: a menu entry and a page that calls a service of its own (docs/plugins.md).

/** @typedef {import('@sluice/contract/plugin-host').PluginHost} PluginHost */

/** @param {PluginHost} host */
export function activate(host) {
  host.navigation.add({ id: 'greetings', label: 'Greetings', route: '/greetings' });
  host.pages.register({ route: '/greetings', mount: (container) => mount(host, container) });
}

/** @param {PluginHost} host */
function mount(host, container) {
  const list = document.createElement('ul');
  const name = Object.assign(document.createElement('input'), { id: 'greeting-name', ariaLabel: 'Name' });
  const add = Object.assign(document.createElement('button'), { type: 'button', textContent: 'Greet' });
  const row = Object.assign(document.createElement('div'), { className: 'greetings-row' });
  row.append(name, add);
  container.append(row, list);

  const refresh = async () => {
    const greetings = await host.http.get('greeter', '/greetings');
    // Text, never markup: it comes from others.
    list.replaceChildren(
      ...greetings.map((text) => Object.assign(document.createElement('li'), { textContent: text })),
    );
  };
  const report = (error) => host.notifications.show({ kind: 'error', title: 'Greetings', text: error.message });
  add.addEventListener('click', () => {
    host.http
      .post('greeter', '/greetings', { name: name.value })
      .then(() => {
        host.notifications.show({ kind: 'success', text: `Greeted ${name.value}` });
        return refresh();
      })
      .catch(report);
  });
  refresh().catch(report);
}
