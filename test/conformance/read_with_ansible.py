"""Reads inventories with the installed ansible-core, for `npm run conformance`.

One JSON request a line on standard input, one JSON answer a line on standard output:
  {"files": {PATH: TEXT}, "inventory": PATH, "playbookDir": PATH or null, "password": TEXT or null}
  {"groups": {NAME: {"real": [HOST], "fixed": [HOST]}}, "hosts": {HOST: {VARIABLE: {"value": …} or {"failed": WHY}}}}
  or {"error": WHY}
  {"document": TEXT}
  {"value": …} with every value's type written out, or {"error": WHY}; "doubled": true when a key is there twice
`real` is the order that Ansible gives in this process, `fixed` the same walk with the groups of a level kept in order.
"""
import datetime
import json
import math
import os
import shutil
import sys
import tempfile

from ansible import constants as C
from ansible import context
from ansible.inventory.manager import InventoryManager
from ansible.module_utils.common.collections import ImmutableDict
from ansible.parsing.dataloader import DataLoader
from ansible.parsing.vault import VaultSecret
from ansible.parsing.yaml.objects import AnsibleVaultEncryptedUnicode
from ansible.template import Templar
from ansible.utils.display import Display
from ansible.utils.unsafe_proxy import AnsibleUnsafe
from ansible.vars.hostvars import HostVars
from ansible.vars.manager import VariableManager

context.CLIARGS = ImmutableDict()
C.INVENTORY_ANY_UNPARSED_IS_FAILED = True
WARNINGS = []
Display.warning = lambda self, message, *args, **kwargs: WARNINGS.append(message)
Display.deprecated = lambda self, *args, **kwargs: None
PREFIXES = ('github_runner_cluster_', 'ansible_')


def plain(value):
    if value is None or isinstance(value, (bool, int)):
        return value if value is None or abs(value) < 2**53 else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(value)
    if isinstance(value, (str, AnsibleVaultEncryptedUnicode)):
        return str(value)
    if isinstance(value, bytes):
        return value.decode('utf-8', 'replace')
    if isinstance(value, (datetime.date, datetime.datetime)):
        return str(value)
    if isinstance(value, dict):
        return {key_text(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [plain(item) for item in value]
    return 'a %s of Python' % type(value).__name__


def key_text(key):
    if isinstance(key, str):
        return key
    if isinstance(key, float) and key.is_integer():
        key = int(key)
    return json.dumps(key) if key is None or isinstance(key, (bool, int, float)) else str(key)


def fixed_order(group):
    levels, seen, hosts = [group], {group.name}, []
    while levels:
        following = []
        for member in levels:
            for host in member.hosts:
                if host.name not in hosts:
                    hosts.append(host.name)
            for child in member.child_groups:
                if child.name not in seen:
                    seen.add(child.name)
                    following.append(child)
        levels = following
    return hosts


def read(root, request):
    for path, text in request['files'].items():
        full = os.path.join(root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, 'w', encoding='utf-8', newline='') as file:
            file.write(text)
    loader = DataLoader()
    if request['password'] is not None:
        loader.set_vault_secrets([('default', VaultSecret(request['password'].encode()))])
    nowhere = os.path.join(root, '.nowhere')
    os.makedirs(nowhere, exist_ok=True)
    playbook = request['playbookDir']
    loader.set_basedir(nowhere if playbook is None else os.path.join(root, playbook))
    inventory = InventoryManager(loader=loader, sources=[os.path.join(root, request['inventory'])])
    manager = VariableManager(loader=loader, inventory=inventory)
    HostVars(inventory, manager, loader)
    groups = {}
    for name, group in inventory.groups.items():
        groups[name] = {'real': [host.name for host in group.get_hosts()], 'fixed': fixed_order(group)}
    hosts = {}
    for name, host in inventory.hosts.items():
        variables = manager.get_vars(host=host)
        deciding = {}
        for variable, value in variables.items():
            known = isinstance(variable, str) and variable.startswith(PREFIXES)
            if not known or variable in ('ansible_playbook_python', 'ansible_config_file', 'ansible_version', 'ansible_facts', 'ansible_local'):
                continue
            try:
                deciding[variable] = {'value': plain(Templar(loader=loader, variables=variables).template(value))}
            except Exception as error:  # whatever it is, the value cannot be had
                deciding[variable] = {'failed': str(error)[:200]}
        hosts[name] = deciding
    return {'groups': groups, 'hosts': hosts}


def typed(value, above=()):
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, AnsibleVaultEncryptedUnicode):
        return {'vault': True}
    if isinstance(value, int):
        return {'int': str(value)}
    if isinstance(value, float):
        return {'float': value if math.isfinite(value) else str(value)}
    if isinstance(value, str):
        return {'unsafe' if isinstance(value, AnsibleUnsafe) else 'text': str(value)}
    if isinstance(value, bytes):
        return {'text': value.decode('utf-8', 'replace')}
    if isinstance(value, (datetime.date, datetime.datetime)):
        return {'text': str(value)}
    if id(value) in above:
        raise ValueError('a value inside itself')
    if isinstance(value, dict):
        return {'map': [[typed(key), typed(item, above + (id(value),))] for key, item in value.items()]}
    if isinstance(value, (list, tuple)):
        return [typed(item, above + (id(value),)) for item in value]
    raise ValueError('a %s of Python' % type(value).__name__)


def read_document(text):
    WARNINGS.clear()
    loader = DataLoader()
    loader.set_vault_secrets([('default', VaultSecret(b'x'))])
    value = typed(loader.load(text))
    return {'value': value, 'doubled': any('duplicate dict key' in warning for warning in WARNINGS)}


for line in sys.stdin:
    request = json.loads(line)
    if 'document' in request:
        try:
            answer = read_document(request['document'])
        except Exception as error:  # PyYAML lets errors of the constructors through
            answer = {'error': str(error)[:300]}
        print(json.dumps(answer), flush=True)
        continue
    folder = tempfile.mkdtemp(prefix='conformance-')
    try:
        answer = read(folder, request)
    except Exception as error:  # Ansible's errors are of many classes
        answer = {'error': str(error)[:500]}
    finally:
        shutil.rmtree(folder)
    print(json.dumps(answer), flush=True)
