from small_networks import LISTOPS

from ndr.tasks import get_task
from ndr.view.tree import tree_of


def test_columns_count_the_begin_token_and_parents_come_first():
    tree = tree_of(get_task("listops"), LISTOPS)
    root = tree[0]
    assert (root.label, root.column, root.value, root.height, root.parent) == ("[SM", 1, "4", 4, None)
    for place, vertex in enumerate(tree):
        assert vertex.parent is None or vertex.parent < place
        assert all(tree[child].parent == place for child in vertex.children)
    maximum = next(vertex for vertex in tree if vertex.label == "[MAX")
    assert (maximum.column, maximum.value, maximum.needed, maximum.height) == (7, "9", False, 1)


def test_deep_texts_need_no_recursion():
    text = "[MAX 1 " * 5000 + "2 3 " + "] " * 5000
    tree = tree_of(get_task("listops"), text)
    assert tree[0].height == 5000 and tree[0].value == "3"


def test_no_task_no_tree():
    assert tree_of(None, "anything") is None
